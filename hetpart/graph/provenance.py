# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a node's metadata says of where it comes from: module, FX node, source line, and where its author wants it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from hetpart.errors import InvalidModelError
from hetpart.graph.ir import Origin, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

ORIGIN = "hetpart.origin"
"""Key of a node's metadata: type and name of the operator whose body it is from."""
PIN = "hetpart.pin"
"""Key of a node's metadata: the device that whoever wrote the model wants it on."""
PINNED_BY = "hetpart.pin.by"
"""Key of a node's metadata: what else than ``hetpart.pin`` put it on the device of ``PIN``, in words."""
EXACT = "hetpart.exact"
"""Key of a node's metadata: it computes in float64, and the numbers beside it have more digits than float32."""
EVERY = "hetpart.every"
"""Key of a node's metadata: in one of how many runs it has something to do."""
NAME_SCOPES = "pkg.torch.onnx.name_scopes"
FX_NODE = "pkg.torch.onnx.fx_node"
STACK_TRACE = "pkg.torch.onnx.stack_trace"
STACK_LINE = re.compile(r'File "([^"\n]+)", line (\d{1,9}), in (\S+)')
"""File, line and function of a call, as Python writes stacks: the innermost last."""
_PLAIN_LIST = re.compile(r"\['[^'\\\r\n\0]*'(?:, '[^'\\\r\n\0]*')*\]")
"""A list literal of texts as Python writes most: read without its parser."""
_FX_FORM = re.compile(r"%(\S+) :.*?\[target=([^\]\n]+)\]")
"""``%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = …``."""
_REPEATED = re.compile(r"@\d+")
"""What the exporter adds to a module's path where it is called for the second time."""
_COUNT = re.compile(r"[1-9][0-9]{0,17}")
_STACKS_KEPT = 4096
_WRITTEN = "<eval_with_key>"
"""What the files of code are called that PyTorch writes from a graph."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a node comes from."""

    scope: str
    origin: Origin | None = None
    source: Source | None = None
    pin: str = ""
    pinned_by: str = ""
    every: int = 1


_NOT_TOLD = Provenance("")


def provenance_of(node: onnx.NodeProto) -> Provenance:
    """What ``node`` says of itself, as PyTorch's exporters and hetpart write it.

    Raises:
        InvalidModelError: it has something to do in one of no number of runs.
    """
    if not node.metadata_props:
        scope = _scope_in_name(node.name)
        return Provenance(scope) if scope else _NOT_TOLD
    notes = {entry.key: entry.value for entry in node.metadata_props}
    pin, by = notes.get(PIN, ""), notes.get(PINNED_BY, "")
    return Provenance(scope_from(node.name, notes), _origin(notes), _source(notes), pin, by, _every(node.name, notes))


def scope_of(node: onnx.NodeProto) -> str:
    """Dotted module path of ``node``, as PyTorch's exporters record it: in metadata, or in a name with slashes."""
    return scope_from(node.name, {entry.key: entry.value for entry in node.metadata_props})


def scope_from(name: str, notes: Mapping[str, str]) -> str:
    """The same of a node's name and metadata."""
    recorded = notes.get(NAME_SCOPES)
    return _scope_in_name(name) if recorded is None else _recorded_scope(recorded)


def _scope_in_name(name: str) -> str:
    return ".".join(name.strip("/").split("/")[:-1]) if name.startswith("/") else ""


def _recorded_scope(text: str) -> str:
    """Second to last of a list literal such as ``['', 'encoder', 'encoder.layer.0', 'view_1']``."""
    names = text[2:-2].split("', '") if _PLAIN_LIST.fullmatch(text) else _parsed(text)
    return _REPEATED.sub("", names[-2]) if len(names) > 1 else ""


def _parsed(text: str) -> list[str]:
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(scope) for scope in cast("list[object]", scopes)] if isinstance(scopes, list) else []


def _origin(notes: Mapping[str, str]) -> Origin | None:
    text = notes.get(ORIGIN)
    if text is None:
        return None
    op_type, _, name = text.partition(" ")
    return Origin(op_type, name)


def _every(name: str, notes: Mapping[str, str]) -> int:
    text = notes.get(EVERY, "1")
    if not _COUNT.fullmatch(text):
        raise InvalidModelError(
            f"the metadata of node {name!r} have {EVERY!r}, which is {text[:20]!r}",
            hint="it is a number of runs from 1; save the step again, or drop it",
        )
    return int(text)


def _source(notes: Mapping[str, str]) -> Source | None:
    written = _FX_FORM.match(notes.get(FX_NODE, ""))
    if written is None:
        return None
    return Source(written[1], written[2].removeprefix("torch.ops."), line_of(notes.get(STACK_TRACE, "")))


@lru_cache(_STACKS_KEPT)
def line_of(stack: str) -> str:
    """The innermost line of ``stack`` that is not PyTorch's own."""
    frames = STACK_LINE.findall(stack)
    own = [frame for frame in frames if _WRITTEN not in frame[0] and "torch" not in PurePath(frame[0]).parts]
    return "{}:{} in {}".format(*(own or frames)[-1]) if frames else ""
