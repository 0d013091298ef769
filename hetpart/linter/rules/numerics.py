# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""HPN: constants that a tool, or a narrower type, turns into something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetpart.linter.content import numbers
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

    from hetpart.linter.subject import Subject

LARGEST_EPSILON = 1e-7
"""Constants up to this one `torch.onnx`'s optimiser takes for zero when they are added (its rule for ``x + 1e-8``)."""
_HALF = (10, 16)
"""float16 and bfloat16, as ``TensorProto.DataType`` numbers them."""
_MOST_ELEMENTS = 64


@rule(
    "HPN001", "constant-near-exporter-epsilon", Severity.WARNING, Stage.FILE,
    hint="export with optimize=False, or use a larger constant",
)  # fmt: skip
def constant_near_exporter_epsilon(subject: Subject) -> Iterator[Mark]:
    """A constant so small that an exporter's optimiser removes the op that adds it.

    ## What it does
    Finds `Add` and `Sub` of a constant that is not zero and at most 1e-7.

    ## Why is this bad
    `torch.onnx.export(..., optimize=True)`, its default, takes such a constant for zero and removes the op: a division
    by `x + 1e-8` becomes one by `x`, and gives infinity where `x` is zero.

    ## Example
    `loss / (count + 1e-8)`

    ## Use instead
    `torch.onnx.export(..., optimize=False)`, or `count.clamp(min=1e-6)`
    """
    sums = [node for node in subject.proto.graph.node if node.op_type in ("Add", "Sub")]
    added = {name for node in sums for name in node.input}
    small = {name for name, largest in _constants(subject, added) if 0 < largest <= LARGEST_EPSILON}
    for node in sums:
        if not small.isdisjoint(node.input):
            which = next(name for name in node.input if name in small)
            yield Mark(
                f"{node.op_type} {node.name!r} adds the constant {which!r} of at most 1e-7",
                anchor="" if node.name else node.output[0],
                op=node.name,
            )


def _constants(subject: Subject, wanted: set[str]) -> Iterator[tuple[str, float]]:
    """Small float constants among those ``wanted``, by name, with their largest absolute value."""
    graph = subject.proto.graph
    tensors = [(tensor.name, tensor) for tensor in graph.initializer if tensor.name in wanted]
    for node in graph.node:
        if node.op_type == "Constant" and node.output and node.output[0] in wanted:
            tensors += [(node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value"]
            scalars = [attribute.f for attribute in node.attribute if attribute.name == "value_float"]
            yield from ((node.output[0], abs(scalar)) for scalar in scalars)
    for name, tensor in tensors:
        if int(np.prod(tensor.dims)) <= _MOST_ELEMENTS and tensor.data_type in (1, 11, *_HALF):
            found = numbers(tensor, subject.loaded)
            if found is not None and found.size:
                yield name, float(np.abs(found).max())


@rule(
    "HPN002", "half-precision-overflow-constant", Severity.WARNING, Stage.FILE,
    hint="use the largest number of the type, 65504 in float16, instead of infinity",
)  # fmt: skip
def half_precision_overflow_constant(subject: Subject) -> Iterator[Mark]:
    """Infinity in a constant of half precision.

    ## What it does
    Reads the constants of float16 and bfloat16 and counts those that are infinite.

    ## Why is this bad
    It was a number once: 1e9 does not fit float16. Infinity times zero is no number, and a `Softmax` over a row of
    −infinity is none either.

    ## Example
    A mask of `-1e9` that a conversion to float16 turned into −infinity.

    ## Use instead
    `torch.finfo(torch.float16).min`
    """
    for tensor in subject.tensors:
        if tensor.data_type in _HALF:
            found = numbers(tensor, subject.loaded)
            infinite = 0 if found is None else int(np.isinf(found).sum())
            if infinite:
                yield Mark(
                    f"{infinite} of {_size(tensor)} elements of {tensor.name!r} are infinite", anchor=tensor.name
                )


def _size(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims))
