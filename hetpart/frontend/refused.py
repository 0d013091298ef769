"""Why a program cannot be put in ONNX operators, in words, from what PyTorch and its exporter raise."""

from __future__ import annotations

from collections.abc import Iterator

from hetpart.errors import InvalidModelError
from hetpart.frontend.said import reason_of

_FUNCTION_WANTED = "No ONNX function found for"
_ALIASED = "has alias annotations"
_ALL_SAID = "torch.onnx.export(program, dynamo=True, optimize=False) says all of it"
_LOST = ("Tensor that doesn't have storage", "TensorWrapper", "functorch")
"""What PyTorch speaks of where a program holds calls of ``torch.func`` that differentiate."""
_MODULE_WANTED = "give the module itself, whose gradients are traced: torch.export loses what torch.func takes"
_QUANTISED = ("torch.qint8", "torch.quint8", "torch.qint32", "torch.quint4x2", "torch.quint2x4")
_LARGER = (
    "makes a tensor larger in place, with resize_ or resize_as_",
    "make one of that size in its place, torch.empty(size), and of a program that was exported before give the module",
)
_SAID = {
    "is mutated in the forward method": (
        "changes a tensor that it holds as no buffer when it is called, which a plan would not do",
        "take the tensor as an argument and return its new content",
    ),
    "resize a view tensor": _LARGER,
    "to a storage on different device": _LARGER,
    "complex32": (
        "computes with complex numbers in half precision, torch.complex32, which ONNX cannot",
        "compute them in torch.complex64",
    ),
}
"""What a module does, and what to do, by what PyTorch says of it."""


def refusal(name: str, error: Exception) -> InvalidModelError:
    """What ``error`` says of the program ``name``, and what to do."""
    known = list(causes(error))
    missing = next((cause for cause in known if _FUNCTION_WANTED in str(cause)), None)
    if missing is not None:
        operator = str(missing).split(_FUNCTION_WANTED, 1)[1].split(". Failure", 1)[0].strip()
        return InvalidModelError(
            f"{name} uses {operator}, which has no translation to ONNX",
            hint="write that part in other operators, or leave it out of what is partitioned",
        )
    aliasing = next((str(cause) for cause in known if _ALIASED in str(cause)), None)
    if aliasing is not None:
        return InvalidModelError(
            f"{name} uses a custom operator that returns what it was given: {reason_of(known[-1])}",
            hint="register it with a result of its own, as x.view(…).clone(), and without (a) or out= in its schema",
        )
    for part, (what, hint) in _SAID.items():
        if any(part in str(cause) for cause in known):
            return InvalidModelError(f"{name} {what}", hint=hint)
    quantised = next((kind for kind in _QUANTISED if any(kind in str(cause) for cause in known)), None)
    if quantised is not None:
        return InvalidModelError(
            f"{name} makes tensors of {quantised}, which ONNX has no form of",
            hint="quantise the program that torch.export makes of it: torch.ops.quantized_decomposed is known",
        )
    return InvalidModelError(
        f"{name} cannot be put in ONNX operators: {reason_of(known[-1])}",
        hint=_MODULE_WANTED if any(part in str(cause) for part in _LOST for cause in known) else _ALL_SAID,
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and what it was raised from, the first of all last."""
    while error is not None:
        yield error
        error = error.__cause__
