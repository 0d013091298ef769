# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Output types of ``com.microsoft`` operators, whose schemas ``onnx`` does not carry.

Each row is a rule of ONNX Runtime's ContribOperators.md. An operator that has no row keeps the types the file declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

from hetpart.graph.types import dtype_of, shape_of, tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetpart.graph.ir import Shape

CONTRIB_DOMAIN = "com.microsoft"
_TYPE_NUMBERS = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "uint8": onnx.TensorProto.UINT8,
    "int8": onnx.TensorProto.INT8,
}

_LIKE_FIRST = frozenset(
    {
        "BiasGelu", "FastGelu", "Gelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
        "SimplifiedLayerNormalization", "RotaryEmbedding", "BiasSplitGelu", "BiasAdd", "MoE", "QMoE", "GroupNorm",
        "SkipGroupNorm", "NhwcFusedConv", "BiasSoftmax", "BiasDropout", "QLinearSigmoid", "QLinearLeakyRelu",
        "QLinearSoftmax", "MultiHeadAttention", "GroupQueryAttention", "PackedAttention", "Inverse", "FusedElementwise",
    }
)  # fmt: skip
"""Operators whose first output has the type of their first input."""


def contrib_types(node: onnx.NodeProto, inputs: Mapping[str, onnx.TypeProto]) -> dict[str, onnx.TypeProto]:
    """Types of the node's outputs where a rule is known; nothing for another domain or an unknown operator."""
    if node.domain != CONTRIB_DOMAIN or not node.input or not node.output:
        return {}
    if node.op_type in _LIKE_FIRST:
        return {node.output[0]: inputs.get(node.input[0], onnx.TypeProto())}
    rule = _RULES.get(node.op_type)
    shapes = [shape_of(inputs[name]) if name in inputs else None for name in node.input]
    shape = rule(node, shapes) if rule else None
    first = inputs.get(node.input[0])
    if shape is None or first is None or None in shape:
        return {}
    number = _TYPE_NUMBERS.get(dtype_of(first), first.tensor_type.elem_type)
    if node.op_type in _MAKES_FLOAT:
        number = onnx.TensorProto.FLOAT
    return {node.output[0]: tensor_type(number, [size for size in shape if size is not None])}


def _fused_matmul(node: onnx.NodeProto, shapes: Sequence[Shape | None]) -> Shape | None:
    a, b = shapes[0], shapes[1] if len(shapes) > 1 else None
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    rows = a[-1] if flags.get("transA") else a[-2]
    columns = b[-2] if flags.get("transB") else b[-1]
    batch = a[:-2] if len(a) >= len(b) else b[:-2]
    return (*batch, rows, columns)


def _matmul_nbits(node: onnx.NodeProto, shapes: Sequence[Shape | None]) -> Shape | None:
    columns = next((attribute.i for attribute in node.attribute if attribute.name == "N"), None)
    return None if shapes[0] is None or columns is None else (*shapes[0][:-1], columns)


def _attention(node: onnx.NodeProto, shapes: Sequence[Shape | None]) -> Shape | None:
    sizes = next((tuple(a.ints) for a in node.attribute if a.name == "qkv_hidden_sizes"), None)
    weight = shapes[1] if len(shapes) > 1 else None
    if shapes[0] is None or (sizes is None and (weight is None or weight[-1] is None)):
        return None
    hidden = sizes[2] if sizes else (weight[-1] or 0) // 3  # pyright: ignore[reportOptionalSubscript]
    return (*shapes[0][:-1], hidden)


def _broadcast(node: onnx.NodeProto, shapes: Sequence[Shape | None]) -> Shape | None:
    # QLinearAdd and QLinearMul: A, A_scale, A_zero_point, B, …
    a, b = shapes[0], shapes[3] if len(shapes) > 3 else None
    if a is None or b is None or len(node.input) < 4:
        return None
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


_RULES: dict[str, Callable[[onnx.NodeProto, Sequence[Shape | None]], Shape | None]] = {
    "FusedMatMul": _fused_matmul,
    "FusedGemm": _fused_matmul,
    "DynamicQuantizeMatMul": _fused_matmul,
    "MatMulIntegerToFloat": _fused_matmul,
    "MatMulNBits": _matmul_nbits,
    "Attention": _attention,
    "QAttention": _attention,
    "QLinearAdd": _broadcast,
    "QLinearMul": _broadcast,
}
_MAKES_FLOAT = frozenset({"MatMulIntegerToFloat", "QAttention"})
