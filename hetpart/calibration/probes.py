"""What is measured: for every kernel family, the sizes it is run at and the model that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import isqrt, prod

import numpy as np
from onnx import helper

from hetpart.calibration.models import CONTRIB, chain, model, numbers

Sizes = tuple[int, ...]
CHAIN = 4
"""Nodes of a chain: what one makes lies in the caches when the next reads it, as in a model."""
HEADS = 12
MOST_FLOPS = 4e8
"""Larger products and convolutions take too long for a probe; their rate no longer changes."""
TABLE_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class Family:
    """Kernels that share a table."""

    axes: tuple[Sizes, ...]
    build: Callable[..., bytes]
    """From one size an axis, the model."""
    calls: float = 1.0
    """Calls of the kernel in one run of the model."""
    flops: Callable[..., float] | None = None
    """Of a call; those of too many are left out."""

    def points(self) -> Iterator[Sizes]:
        """Grid points that are measured."""
        for sizes in product(*self.axes):
            if self.flops is None or self.flops(*sizes) <= MOST_FLOPS:
                yield sizes


def _gemm(rows: int, inner: int, columns: int) -> bytes:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return model(nodes, {"x": (rows, inner)}, {"y": (rows, columns)}, {"w": numbers(inner, columns)})


def _batched_gemm(rows: int, inner: int, columns: int) -> bytes:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    shapes = {"x": (HEADS, rows, inner), "w": (HEADS, inner, columns)}
    return model(nodes, shapes, {"y": (HEADS, rows, columns)})


def _convolution(kernel: int, inputs: int, outputs: int, positions: int, *, group: int = 1, stride: int = 1) -> bytes:
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


def _depthwise(channels: int, positions: int) -> bytes:
    return _convolution(3, channels, channels, positions, group=channels)


def _stem(outputs: int, positions: int) -> bytes:
    return _convolution(7, 3, outputs, positions, stride=2)


def _elementwise(op_type: str, elements: int, domain: str = "") -> bytes:
    nodes = chain(op_type, CHAIN, domain=domain)
    return model(nodes, {"v0": (elements,)}, {f"v{CHAIN}": (elements,)})


def _binary(op_type: str, elements: int) -> bytes:
    nodes = chain(op_type, CHAIN, ("z",))
    return model(nodes, {"v0": (elements,), "z": (elements,)}, {f"v{CHAIN}": (elements,)})


def _by_row(op_type: str, domain: str, elements: int) -> bytes:
    width = 256
    shape = (elements // width, width)
    nodes = chain(op_type, CHAIN, ("z",), domain)
    return model(nodes, {"v0": shape}, {f"v{CHAIN}": shape}, {"z": numbers(width)})


def _normalization(rows: int, width: int) -> bytes:
    nodes = chain("LayerNormalization", CHAIN, ("s", "b"), axis=-1)
    return model(nodes, {"v0": (rows, width)}, {f"v{CHAIN}": (rows, width)}, {"s": numbers(width), "b": numbers(width)})


def _skip_normalization(rows: int, width: int) -> bytes:
    nodes = chain("SkipLayerNormalization", CHAIN, ("z", "s", "b"), CONTRIB)
    shape = (1, rows, width)
    return model(nodes, {"v0": shape, "z": shape}, {f"v{CHAIN}": shape}, {"s": numbers(width), "b": numbers(width)})


def _softmax(rows: int, width: int) -> bytes:
    return model(chain("Softmax", CHAIN, axis=-1), {"v0": (rows, width)}, {f"v{CHAIN}": (rows, width)})


def _reduction(rows: int, width: int) -> bytes:
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    return model(nodes, {"x": (rows, width)}, {"y": (rows, 1)}, {"axes": np.array([1])})


def _transpose(elements: int, run: int) -> bytes:
    """Two axes change places in front of runs of elements that stay together."""
    first = max(2, isqrt(max(4, elements // run)))
    second = max(2, elements // run // first)
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])]
    return model(nodes, {"x": (first, second, run)}, {"y": (second, first, run)})


def _concatenation(elements: int) -> bytes:
    nodes = [helper.make_node("Concat", ["x", "z"], ["y"], axis=1)]
    half = (16, elements // 32)
    return model(nodes, {"x": half, "z": half}, {"y": (16, elements // 16)})


def _gather(rows: int, width: int) -> bytes:
    table = (TABLE_BYTES // 4 // width, width)
    nodes = [helper.make_node("Gather", ["table", "rows"], ["y"])]
    return model(nodes, {"table": table, "rows": (rows,)}, {"y": (rows, width)}, integers=("rows",))


def _pool(elements: int, area: int) -> bytes:
    channels, side, kernel = 64, max(1, isqrt(elements // 64)), isqrt(area)
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)]
    return model(nodes, {"x": (1, channels, side, side)}, {"y": (1, channels, side, side)})


def _product_flops(*sizes: int) -> float:
    return 2.0 * prod(sizes)


_ROWS, _INNER = (1, 4, 16, 64, 256), (64, 256, 768, 3072)
_ELEMENTS = (1024, 8192, 32_768, 65_536, 131_072, 524_288, 1_048_576, 4_194_304)
_CHANNELS, _POSITIONS = (16, 64, 256, 1024), (49, 196, 784, 3136)
_LINES, _WIDTHS = (1, 16, 128, 1024), (64, 256, 1024)
_RUNS = (1, 16, 32, 64, 512)

FAMILIES: Mapping[str, Family] = {
    "gemm": Family((_ROWS, _INNER, _INNER), _gemm, flops=_product_flops),
    "batched_gemm": Family(((1, 16, 64, 256), (16, 64, 256), (16, 64, 256)), _batched_gemm, calls=HEADS),
    "layer_normalization": Family((_LINES, _WIDTHS), _normalization, calls=CHAIN),
    "skip_layer_normalization": Family((_LINES, _WIDTHS), _skip_normalization, calls=CHAIN),
    "softmax": Family((_LINES, _WIDTHS), _softmax, calls=CHAIN),
    "reduction": Family((_LINES, _WIDTHS), _reduction),
    "transpose": Family((_ELEMENTS[1::2], _RUNS), _transpose),
    "concat": Family((_ELEMENTS,), _concatenation),
    "gather": Family(((1, 16, 128, 1024, 8192), (1, 16, 64, 256)), _gather),
    "pool": Family((_ELEMENTS[1::2], (1, 9)), _pool),
    **{
        name: Family((_ELEMENTS,), partial(_elementwise, op_type), calls=CHAIN)
        for name, op_type in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp"}.items()
    },
    "gelu": Family((_ELEMENTS,), partial(_elementwise, "Gelu", domain=CONTRIB), calls=CHAIN),
    "bias_gelu": Family((_ELEMENTS,), partial(_by_row, "BiasGelu", CONTRIB), calls=CHAIN),
    "fast_gelu": Family((_ELEMENTS,), partial(_elementwise, "FastGelu", domain=CONTRIB), calls=CHAIN),
    "add": Family((_ELEMENTS,), partial(_binary, "Add"), calls=CHAIN),
    "div": Family((_ELEMENTS,), partial(_binary, "Div"), calls=CHAIN),
    "pow": Family((_ELEMENTS,), partial(_binary, "Pow"), calls=CHAIN),
    "add_row": Family((_ELEMENTS,), partial(_by_row, "Add", ""), calls=CHAIN),
}
"""Measured end to end."""

CONVOLUTIONS: Mapping[str, Family] = {
    "pointwise": Family((_CHANNELS, _CHANNELS, _POSITIONS), partial(_convolution, 1), flops=_product_flops),
    "convolution": Family(
        (_CHANNELS, _CHANNELS, _POSITIONS), partial(_convolution, 3), flops=lambda *sizes: 9 * _product_flops(*sizes)
    ),
    "depthwise": Family((_CHANNELS, _POSITIONS), _depthwise),
    "stem": Family(((16, 64, 256), (196, 3136, 12_544)), _stem),
}
"""Measured in ONNX Runtime's profile, where what reorders their channels stands apart."""
