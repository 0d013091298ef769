# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Shapes that ONNX Runtime's kernels make and ``onnx`` infers otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from hetpart.graph.types import shape_of, tensor_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BY_PART = "tf_crop_and_resize"
"""The mode in which it is a part of the image that is scaled."""
_SIZES = 3
"""Input of Resize: with it there are no scales."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A node, the shape of its first input, and what is inferred of its first output, both static."""

    node: onnx.NodeProto
    given: Sequence[int]
    made: Sequence[int]
    contents: Mapping[str, NDArray[Any]]

    def attribute(self, name: str) -> onnx.AttributeProto | None:
        return next((attribute for attribute in self.node.attribute if attribute.name == name), None)

    def content(self, position: int) -> NDArray[Any] | None:
        return self.contents.get(self.node.input[position]) if position < len(self.node.input) else None


def kernel_shapes(
    node: onnx.NodeProto,
    inputs: Mapping[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    found: dict[str, onnx.TypeProto],
) -> dict[str, onnx.TypeProto]:
    """``found`` types of the node's outputs, the first one's put right where its kernel makes another."""
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    made = found.get(node.output[0]) if rule is not None and node.output else None
    if rule is None or made is None:
        return found
    shapes = [_static(type_) for type_ in (inputs.get(node.input[0], onnx.TypeProto()), made)]
    if shapes[0] is None or shapes[1] is None:
        return found
    right = rule(_Call(node, shapes[0], shapes[1], contents))
    return {**found, node.output[0]: tensor_type(made.tensor_type.elem_type, right)}


def _static(type_: onnx.TypeProto) -> Sequence[int] | None:
    shape = shape_of(type_)
    return None if shape is None or None in shape else [size for size in shape if size is not None]


def _one_sided(call: _Call) -> Sequence[int]:
    """Half the spectrum where STFT does not say: the standard's default, which ``onnx`` takes for the other."""
    if call.attribute("onesided") is not None or len(call.made) != 4:
        return call.made
    batch, frames, size, parts = call.made
    return batch, frames, size // 2 + 1, parts


def _scaled(call: _Call) -> Sequence[int]:
    """Sizes times scales in float32, which rounds up what lies less than its precision below a whole number."""
    scales, listed, mode = _scales(call), call.attribute("axes"), call.attribute("coordinate_transformation_mode")
    rank = len(call.given)
    axes = [axis % rank for axis in listed.ints] if listed is not None else list(range(rank))
    by_part = mode is not None and mode.s.decode(errors="replace") == _BY_PART
    if scales is None or by_part or len(axes) != len(scales) or len(call.made) != rank:
        return call.made
    sizes = np.array(call.given, np.float32)
    sizes[axes] *= scales
    return [int(size) if axis in axes else call.given[axis] for axis, size in enumerate(sizes)]


def _scales(call: _Call) -> NDArray[Any] | None:
    """The scales, where they are known and tell the sizes."""
    listed, names = call.attribute("scales"), call.node.input
    if listed is not None:
        return np.array(listed.floats, np.float32)
    if len(names) > _SIZES and names[_SIZES]:
        return None
    known = call.content(2 if len(names) > 2 else 1)
    return None if known is None or not known.size else known.astype(np.float32)


_RULES: Mapping[str, Callable[[_Call], Sequence[int]]] = {"Resize": _scaled, "STFT": _one_sided, "Upsample": _scaled}
