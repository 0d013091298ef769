"""The models in which one kernel each is measured, by its sizes."""

from __future__ import annotations

from math import isqrt

import numpy as np
from onnx import TensorProto, helper

from hetpart.calibration.models import CONTRIB, chain, model, numbers

HEADS = 12
LOOKUPS = 8
TUPLE_ROWS = 4096
"""Of what tuples are looked up in, which a core's own caches hold."""
TABLE, ROWS = "table", "rows"
"""Names of what is looked up in, and how those of what is looked up begin."""


def gemm(rows: int, inner: int, columns: int) -> bytes:
    """MatMul of [rows, inner] with a weight [inner, columns]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, {"x": (rows, inner)}, {"y": (rows, columns)}, {"w": numbers(inner, columns)})


def batched_gemm(rows: int, inner: int, columns: int) -> bytes:
    """MatMul of ``HEADS`` pairs of activations, [rows, inner] by [inner, columns]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    shapes = {"x": (HEADS, rows, inner), "w": (HEADS, inner, columns)}
    return model(nodes, shapes, {"y": (HEADS, rows, columns)})


def transposed_gemm(rows: int, inner: int, columns: int) -> bytes:
    """FusedMatMul of ``HEADS`` pairs of activations, [rows, inner] by [columns, inner] transposed."""
    nodes = [helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain=CONTRIB, transB=1)]
    shapes = {"x": (HEADS, rows, inner), "w": (HEADS, columns, inner)}
    return model(nodes, shapes, {"y": (HEADS, rows, columns)})


def convolution(kernel: int, inputs: int, outputs: int, positions: int, *, group: int = 1, stride: int = 1) -> bytes:
    """Conv of one square image of so many positions, made with a square window."""
    side = isqrt(positions)
    nodes = [
        helper.make_node(
            "Conv",
            ["x", "w"],
            ["y"],
            kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4,
            group=group,
            strides=[stride] * 2,
        )
    ]
    source, made = (1, inputs, side * stride, side * stride), (1, outputs, side, side)
    return model(nodes, {"x": source}, {"y": made}, {"w": numbers(outputs, inputs // group, kernel, kernel)})


def depthwise(channels: int, positions: int) -> bytes:
    """A 3×3 Conv of every channel by itself."""
    return convolution(3, channels, channels, positions, group=channels)


def stem(outputs: int, positions: int, area: int) -> bytes:
    """Conv of an image of three channels to half its sides."""
    return convolution(isqrt(area), 3, outputs, positions, stride=2)


def elementwise(op_type: str, elements: int, domain: str = "") -> bytes:
    """An op of one operand."""
    nodes = chain(op_type, 1, domain=domain)
    return model(nodes, {"v0": (elements,)}, {"v1": (elements,)})


def binary(op_type: str, elements: int) -> bytes:
    """An op of two operands of one shape."""
    nodes = chain(op_type, 1, ("z",))
    return model(nodes, {"v0": (elements,), "z": (elements,)}, {"v1": (elements,)})


def by_row(op_type: str, domain: str, elements: int, width: int = 256) -> bytes:
    """An op whose second operand is one row of the first."""
    width = min(width, elements)
    shape = (elements // width, width)
    nodes = chain(op_type, 1, ("z",), domain)
    return model(nodes, {"v0": shape}, {"v1": shape}, {"z": numbers(width)})


def normalization(rows: int, width: int) -> bytes:
    """LayerNormalization along rows of ``width``."""
    nodes = chain("LayerNormalization", 1, ("s", "b"), axis=-1)
    return model(nodes, {"v0": (rows, width)}, {"v1": (rows, width)}, {"s": numbers(width), "b": numbers(width)})


def skip_normalization(rows: int, width: int) -> bytes:
    """SkipLayerNormalization along rows of ``width``."""
    nodes = chain("SkipLayerNormalization", 1, ("z", "s", "b"), CONTRIB)
    shape = (1, rows, width)
    return model(nodes, {"v0": shape, "z": shape}, {"v1": shape}, {"s": numbers(width), "b": numbers(width)})


def softmax(rows: int, width: int) -> bytes:
    """Softmax along rows of ``width``."""
    return model(chain("Softmax", 1, axis=-1), {"v0": (rows, width)}, {"v1": (rows, width)})


def reduction(rows: int, width: int) -> bytes:
    """ReduceSum along rows of ``width``."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    return model(nodes, {"x": (rows, width)}, {"y": (rows, 1)}, {"axes": np.array([1])})


def reduction_across(outer: int, reduced: int, inner: int) -> bytes:
    """ReduceSum of the axis in the middle."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    shape, made = (outer, reduced, inner), (outer, 1, inner)
    return model(nodes, {"x": shape}, {"y": made}, {"axes": np.array([1])})


def transpose(elements: int, run: int) -> bytes:
    """Two axes change places in front of runs of elements that stay together."""
    first = max(2, isqrt(max(4, elements // run)))
    second = max(2, elements // run // first)
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])]
    return model(nodes, {"x": (first, second, run)}, {"y": (second, first, run)})


def concatenation(elements: int, run: int, pieces: int) -> bytes:
    """Runs of so many tensors in turn."""
    run = max(1, min(run, elements // pieces))
    rows = max(1, elements // (run * pieces))
    parts = {f"x{place}": (rows, run) for place in range(pieces)}
    nodes = [helper.make_node("Concat", list(parts), ["y"], axis=1)]
    return model(nodes, parts, {"y": (rows, pieces * run)})


def gather(rows: int, width: int, table_bytes: int) -> bytes:
    """``LOOKUPS`` times a Gather of so many rows of ``width`` from a table that is an input.

    One of a single row takes less than one run of a session differs from the next.
    """
    return _lookups(LOOKUPS, rows, width, table_bytes)


def gather_shared(elements: int, width: int, table_bytes: int) -> bytes:
    """Gather of so many elements in all."""
    return _lookups(1, elements // width, width, table_bytes)


def _lookups(count: int, rows: int, width: int, table_bytes: int) -> bytes:
    table = (table_bytes // 4 // width, width)
    chosen = {f"{ROWS}{place}": (rows,) for place in range(count)}
    nodes = [helper.make_node("Gather", [TABLE, name], [f"y{place}"]) for place, name in enumerate(chosen)]
    made = {f"y{place}": (rows, width) for place in range(count)}
    return model(nodes, {TABLE: table, **chosen}, made, integers=list(chosen))


def gather_tuples(tuples: int, width: int) -> bytes:
    """GatherND of slices of so many elements, each by an index of its own."""
    rows = f"{ROWS}0"
    nodes = [helper.make_node("GatherND", [TABLE, rows], ["y"])]
    shapes = {TABLE: (TUPLE_ROWS, width), rows: (tuples, 1)}
    return model(nodes, shapes, {"y": (tuples, width)}, integers=[rows])


def non_zero(elements: int) -> bytes:
    """NonZero of a vector without zeros."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    dtypes = (TensorProto.FLOAT, TensorProto.INT64)
    return model(nodes, {"x": (elements,)}, {"y": (1, elements)}, dtypes=dtypes)


def channel_normalization(channels: int, positions: int) -> bytes:
    """BatchNormalization of an image with known statistics."""
    kinds = ("s", "b", "m", "v")
    nodes = [helper.make_node("BatchNormalization", ["x", *kinds], ["y"])]
    shape = (1, channels, positions)
    weights = {kind: np.abs(numbers(channels)) + np.float32(1) for kind in kinds}
    return model(nodes, {"x": shape}, {"y": shape}, weights)


def largest(rows: int, width: int, count: int) -> bytes:
    """TopK along rows of ``width``."""
    nodes = [helper.make_node("TopK", ["x", "count"], ["y", "places"])]
    return model(nodes, {"x": (rows, width)}, {"y": (rows, count)}, {"count": np.array([count])})


def scatter(elements: int, updates: int) -> bytes:
    """ScatterElements of so many updates to a vector."""
    nodes = [helper.make_node("ScatterElements", ["table", "rows", "x"], ["y"])]
    shapes = {"table": (elements,), "rows": (updates,), "x": (updates,)}
    return model(nodes, shapes, {"y": (elements,)}, integers=("rows",))


def pool(elements: int, area: int) -> bytes:
    """MaxPool of 64 channels with a square window that moves by one."""
    channels, side, kernel = 64, max(1, isqrt(elements // 64)), isqrt(area)
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)]
    return model(nodes, {"x": (1, channels, side, side)}, {"y": (1, channels, side, side)})


def typed_product(sizes: tuple[int, int, int], op_type: str, dtype: str, weights: str, made: int) -> bytes:
    """A product of another element type, with a weight of the type ``weights``; ``made``: its result, 0 the same."""
    rows, inner, columns = sizes
    nodes = [helper.make_node(op_type, ["x", "w"], ["y"])]
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model(
        nodes,
        {"x": (rows, inner)},
        {"y": (rows, columns)},
        {"w": (100 * numbers(inner, columns)).astype(weights)},
        dtypes=(number, made or number),
    )
