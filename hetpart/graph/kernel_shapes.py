# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Shapes that ONNX Runtime's kernels make and ``onnx`` infers otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from hetpart.graph.types import shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BY_PART = "tf_crop_and_resize"
"""The mode in which it is a part of the image that is scaled."""
_SIZES = 3
"""Input of Resize: with it there are no scales."""
Sizes = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class _Call:
    """A node, the shape of its first input, and what is inferred of its first output."""

    node: onnx.NodeProto
    given: Sizes
    made: Sizes
    contents: Mapping[str, NDArray[Any]]

    def attribute(self, name: str) -> onnx.AttributeProto | None:
        return next((attribute for attribute in self.node.attribute if attribute.name == name), None)

    def numbers(self, name: str, default: Sequence[int]) -> Sequence[int]:
        found = self.attribute(name)
        return default if found is None else list(found.ints)

    def content(self, position: int) -> NDArray[Any] | None:
        return self.contents.get(self.node.input[position]) if position < len(self.node.input) else None


def kernel_shapes(
    node: onnx.NodeProto,
    inputs: Mapping[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    found: dict[str, onnx.TypeProto],
) -> dict[str, onnx.TypeProto]:
    """``found`` types of the node's outputs, put right where its kernel makes others."""
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    given = shape_of(inputs.get(node.input[0], onnx.TypeProto())) if rule is not None else None
    if rule is None or given is None:
        return found
    shapes = {name: shape_of(type_) for name, type_ in found.items()}
    calls = {name: _Call(node, given, made, contents) for name, made in shapes.items() if made is not None}
    return found | {name: _of_sizes(found[name], rule(call)) for name, call in calls.items()}


def _of_sizes(type_: onnx.TypeProto, sizes: Sizes) -> onnx.TypeProto:
    """``type_`` with the ``sizes`` that are known."""
    made = onnx.TypeProto()
    made.CopyFrom(type_)
    for dim, size in zip(made.tensor_type.shape.dim, sizes, strict=True):
        if size is not None:
            dim.dim_value = size
    return made


def _one_sided(call: _Call) -> Sizes:
    """Half the spectrum where STFT does not say: the standard's default, which ``onnx`` takes for the other."""
    if call.attribute("onesided") is not None or len(call.made) != 4:
        return call.made
    batch, frames, size, parts = call.made
    return batch, frames, None if size is None else size // 2 + 1, parts


def _started(call: _Call) -> Sizes:
    """Windows that start in what is given or before it: ``onnx`` counts one that starts behind, before opset 22.

    It is where ``ceil_mode`` rounds up that one may.
    """
    rank = len(call.made) - 2
    rounds, none = call.attribute("ceil_mode"), [0] * rank
    if rounds is None or not rounds.i:
        return call.made
    strides, pads = call.numbers("strides", [1] * rank), call.numbers("pads", none * 2)
    pairs = zip(call.given[2:], call.made[2:], strides, pads[:rank], strict=True)
    return *call.made[:2], *(made and made - _starts_behind(given, made, *form) for given, made, *form in pairs)


def _starts_behind(given: int | None, made: int, stride: int, begin: int) -> bool:
    """Whether the last of ``made`` windows starts behind ``given`` elements and the ``begin`` that pad them."""
    return given is not None and (made - 1) * stride >= given + begin


def _scaled(call: _Call) -> Sizes:
    """Sizes times scales in float32, which rounds up what lies less than its precision below a whole number."""
    scales, listed, mode = _scales(call), call.attribute("axes"), call.attribute("coordinate_transformation_mode")
    rank = len(call.given)
    axes = [axis % rank for axis in listed.ints] if listed is not None else list(range(rank))
    by_part = mode is not None and mode.s.decode(errors="replace") == _BY_PART
    if scales is None or by_part or len(axes) != len(scales) or len(call.made) != rank:
        return call.made
    factors = dict(zip(axes, scales, strict=True))
    return [
        size if size is None or axis not in factors else int(np.float32(size) * factors[axis])
        for axis, size in enumerate(call.given)
    ]


def _scales(call: _Call) -> NDArray[Any] | None:
    """The scales, where they are known and tell the sizes."""
    listed, names = call.attribute("scales"), call.node.input
    if listed is not None:
        return np.array(listed.floats, np.float32)
    if len(names) > _SIZES and names[_SIZES]:
        return None
    known = call.content(2 if len(names) > 2 else 1)
    return None if known is None or not known.size else known.astype(np.float32)


_RULES: Mapping[str, Callable[[_Call], Sizes]] = {
    "AveragePool": _started,
    "LpPool": _started,
    "MaxPool": _started,
    "Resize": _scaled,
    "STFT": _one_sided,
    "Upsample": _scaled,
}
