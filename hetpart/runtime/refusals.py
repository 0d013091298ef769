"""What ONNX Runtime says when it refuses a model, as a user reads it: no paths of its source, and what to do."""

from __future__ import annotations

import re

_SOURCE = re.compile(r"/\S*onnxruntime\S*\.(?:h|cc|cpp|cu)\b:\d+ ")
_SIGNATURE = re.compile(r"^[^()]*\([^()]*(?:\([^()]*\)[^()]*)*\)(?: const)? (?=\S)")
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : ")
_DAMAGED = ("INVALID_PROTOBUF", "No graph was found in the protobuf")
_HINTS = (
    ("terminate flag", "run_options.terminate was set, which ends a run: run again with options of which it is not"),
    ("INVALID_PROTOBUF", "the file is damaged: `hetpart partition` the model again"),
    ("two nodes with same node name", "give every node a name of its own and partition again, or run without --check"),
    ("Failed to allocate memory", "the device's memory ran out: partition again with a smaller --shape or --budget"),
    ("NOT_IMPLEMENTED", "the provider has no kernel for the op: pin it to another device, or export it otherwise"),
)


CHECK_HINT = (
    "`hetpart run --check` tells whether the uncut model runs on these inputs, and of a training step a plan with "
    "--placement all-cpu does"
)
CLOSED_HINT = "after close(), open the bundle again: hetpart.Session(bundle), or compile the training step again"


def ort_message(error: BaseException) -> str:
    """The text of ``error`` on one line, without where in ONNX Runtime's source it was raised."""
    parts = _SOURCE.split(str(error))
    told = "".join([parts[0], *(_SIGNATURE.sub("", part, count=1) for part in parts[1:])])
    return " ".join(_CODE.sub("", told).split())


def ort_hint(error: BaseException, otherwise: str) -> str:
    """What to do about ``error``, where its text tells."""
    return next((hint for mark, hint in _HINTS if mark in str(error)), otherwise)


def is_damage(error: BaseException) -> bool:
    """Whether ONNX Runtime could not even read the file."""
    return any(mark in str(error) for mark in _DAMAGED)
