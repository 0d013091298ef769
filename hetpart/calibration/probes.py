"""What is measured: for every kernel family, the sizes it is run at and the model that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import isqrt, prod

import numpy as np
from onnx import TensorProto, helper

from hetpart.calibration.models import CONTRIB, chain, model, numbers

Sizes = tuple[int, ...]
HEADS = 12
MOST_FLOPS = 4e8
"""Larger convolutions, and products of a batch, take too long for a probe; their rate no longer changes."""
MOST_PRODUCT_FLOPS = 5e9
"""Larger products take too long. Their rate sinks where the left side no longer fits the core's own cache."""
TABLE_BYTES = 2**30
"""Of the largest table that rows are looked up in."""


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
    most_flops: float = MOST_FLOPS

    def points(self) -> Iterator[Sizes]:
        """Grid points that are measured."""
        for sizes in product(*self.axes):
            if self.flops is None or self.flops(*sizes) <= self.most_flops:
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


def _stem(outputs: int, positions: int, area: int) -> bytes:
    return _convolution(isqrt(area), 3, outputs, positions, stride=2)


def _elementwise(op_type: str, elements: int, domain: str = "") -> bytes:
    nodes = chain(op_type, 1, domain=domain)
    return model(nodes, {"v0": (elements,)}, {"v1": (elements,)})


def _binary(op_type: str, elements: int) -> bytes:
    nodes = chain(op_type, 1, ("z",))
    return model(nodes, {"v0": (elements,), "z": (elements,)}, {"v1": (elements,)})


def _by_row(op_type: str, domain: str, elements: int) -> bytes:
    width = 256
    shape = (elements // width, width)
    nodes = chain(op_type, 1, ("z",), domain)
    return model(nodes, {"v0": shape}, {"v1": shape}, {"z": numbers(width)})


def _normalization(rows: int, width: int) -> bytes:
    nodes = chain("LayerNormalization", 1, ("s", "b"), axis=-1)
    return model(nodes, {"v0": (rows, width)}, {"v1": (rows, width)}, {"s": numbers(width), "b": numbers(width)})


def _skip_normalization(rows: int, width: int) -> bytes:
    nodes = chain("SkipLayerNormalization", 1, ("z", "s", "b"), CONTRIB)
    shape = (1, rows, width)
    return model(nodes, {"v0": shape, "z": shape}, {"v1": shape}, {"s": numbers(width), "b": numbers(width)})


def _softmax(rows: int, width: int) -> bytes:
    return model(chain("Softmax", 1, axis=-1), {"v0": (rows, width)}, {"v1": (rows, width)})


def _reduction(rows: int, width: int) -> bytes:
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    return model(nodes, {"x": (rows, width)}, {"y": (rows, 1)}, {"axes": np.array([1])})


def _reduction_across(outer: int, reduced: int, inner: int) -> bytes:
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    shape, made = (outer, reduced, inner), (outer, 1, inner)
    return model(nodes, {"x": shape}, {"y": made}, {"axes": np.array([1])})


def _transpose(elements: int, run: int) -> bytes:
    """Two axes change places in front of runs of elements that stay together."""
    first = max(2, isqrt(max(4, elements // run)))
    second = max(2, elements // run // first)
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])]
    return model(nodes, {"x": (first, second, run)}, {"y": (second, first, run)})


def _concatenation(elements: int, run: int) -> bytes:
    """Runs of two tensors in turn."""
    nodes = [helper.make_node("Concat", ["x", "z"], ["y"], axis=1)]
    rows = max(1, elements // run // 2)
    half = (rows, run)
    return model(nodes, {"x": half, "z": half}, {"y": (rows, 2 * run)})


def _gather(rows: int, width: int, table_bytes: int) -> bytes:
    table = (table_bytes // 4 // width, width)
    nodes = [helper.make_node("Gather", ["table", "rows"], ["y"])]
    return model(nodes, {"table": table, "rows": (rows,)}, {"y": (rows, width)}, integers=("rows",))


def _pool(elements: int, area: int) -> bytes:
    channels, side, kernel = 64, max(1, isqrt(elements // 64)), isqrt(area)
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)]
    return model(nodes, {"x": (1, channels, side, side)}, {"y": (1, channels, side, side)})


def _product_flops(*sizes: int) -> float:
    return 2.0 * prod(sizes)


_ROWS, _INNER, _COLUMNS = (1, 4, 16, 64, 256, 1024, 4096), (16, 64, 256, 768, 3072), (1, 16, 64, 256, 768, 3072)
_BATCHED = (16, 64, 256, 1024)
_ELEMENTS = (1024, 8192, 32_768, 65_536, 131_072, 524_288, 1_048_576, 4_194_304)
_CHANNELS, _POSITIONS = (16, 64, 256, 1024), (49, 196, 784, 3136)
_LINES, _WIDTHS = (1, 16, 128, 1024), (64, 256, 1024)
_BLOCKS = (512, 8192, 65_536, 131_072, 524_288, 1_048_576, 4_194_304)
_RUNS = (1, 16, 32, 64, 512)
_SPANS = (1, 16, 64, 512)
_TABLES = (2**14, 2**20, 2**25, TABLE_BYTES)

FAMILIES: Mapping[str, Family] = {
    "gemm": Family((_ROWS, _INNER, _COLUMNS), _gemm, flops=_product_flops, most_flops=MOST_PRODUCT_FLOPS),
    "batched_gemm": Family(
        ((1, *_BATCHED), _BATCHED, _BATCHED),
        _batched_gemm,
        calls=HEADS,
        flops=_product_flops,
        most_flops=MOST_FLOPS / 2,
    ),
    "layer_normalization": Family((_LINES, _WIDTHS), _normalization),
    "skip_layer_normalization": Family((_LINES, _WIDTHS), _skip_normalization),
    "softmax": Family((_LINES, _WIDTHS), _softmax),
    "reduction": Family((_LINES, _WIDTHS), _reduction),
    "reduction_across": Family(((1, 32, 512), (16, 256), (1, 16, 64)), _reduction_across),
    "transpose": Family((_BLOCKS, _RUNS), _transpose),
    "concat": Family((_BLOCKS, _SPANS), _concatenation),
    "gather": Family(((1, 128, 1024, 8192), (1, 16, 64, 256), _TABLES), _gather),
    "pool": Family((_BLOCKS, (1, 9)), _pool),
    **{
        name: Family((_ELEMENTS,), partial(_elementwise, op_type))
        for name, op_type in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp"}.items()
    },
    "gelu": Family((_ELEMENTS,), partial(_elementwise, "Gelu", domain=CONTRIB)),
    "bias_gelu": Family((_ELEMENTS,), partial(_by_row, "BiasGelu", CONTRIB)),
    "fast_gelu": Family((_ELEMENTS,), partial(_elementwise, "FastGelu", domain=CONTRIB)),
    "add": Family((_ELEMENTS,), partial(_binary, "Add")),
    "div": Family((_ELEMENTS,), partial(_binary, "Div")),
    "pow": Family((_ELEMENTS,), partial(_binary, "Pow")),
    "add_row": Family((_ELEMENTS,), partial(_by_row, "Add", "")),
}
"""Measured end to end."""

CONVOLUTIONS: Mapping[str, Family] = {
    "pointwise": Family((_CHANNELS, _CHANNELS, _POSITIONS), partial(_convolution, 1), flops=_product_flops),
    "convolution": Family(
        (_CHANNELS, _CHANNELS, _POSITIONS), partial(_convolution, 3), flops=lambda *sizes: 9 * _product_flops(*sizes)
    ),
    "depthwise": Family((_CHANNELS, _POSITIONS), _depthwise),
    "stem": Family(((16, 64, 256), (196, 3136, 12_544), (9, 49)), _stem),
}
"""Measured in ONNX Runtime's profile, where what reorders their channels stands apart."""

CHECKS: Mapping[str, tuple[Sizes, ...]] = {
    "gemm": ((8, 512, 512), (48, 384, 1536), (128, 1024, 512), (197, 768, 768)),
    "batched_gemm": ((40, 64, 40), (128, 64, 128), (100, 128, 100)),
    "layer_normalization": ((48, 512), (300, 768)),
    "softmax": ((48, 128), (600, 200)),
    "transpose": ((300_000, 32),),
    "add": ((60_000,), (600_000,)),
    "gelu": ((60_000,), (600_000,)),
    "gather": ((512, 32, 2**28), (4096, 100, 2**26)),
    "concat": ((200_000, 100),),
    "reduction_across": ((200, 64, 48),),
    "pointwise": ((128, 512, 784), (96, 32, 400)),
    "convolution": ((128, 128, 784), (32, 48, 400)),
    "depthwise": ((128, 400),),
}
"""Sizes between the points of the tables, by which these are judged."""

WEIGHING = frozenset({"gemm", "cold"})
"""Probes that read weights more than anything else."""

Key = tuple[str, Sizes]
SHORT: Key = ("short", ())
"""A session of one kernel that does next to nothing."""
TWIN: Key = ("twin", ())
"""The same again: run after the other, its code is warm and its session cold, as of every probe that has a sibling."""
LONG: Key = ("long", ())
FEW: Key = ("few", ())
MANY: Key = ("many", ())
"""Kernels of a few operands, and of many."""
VIEWS: Key = ("views", ())
COLD: Key = ("cold", ())
SPEED: Key = ("speed", ())
"""Arithmetic alone, in little time: its own best time tells whether the processor is disturbed."""
LONG_CHAIN = 64
FEW_OPERANDS, MANY_OPERANDS = 2, 34
COLD_LAYERS, COLD_WIDTH = 24, 1024
"""Weights of 100 MB: no cache holds them from run to run."""


def _short() -> bytes:
    return model(chain("Relu", 1), {"v0": (1,)}, {"v1": (1,)})


def _long() -> bytes:
    return model(chain("Relu", LONG_CHAIN), {"v0": (1,)}, {f"v{LONG_CHAIN}": (1,)})


def _joined(pieces: int) -> bytes:
    nodes = [helper.make_node("Concat", [f"v{i}" for i in range(pieces)], ["y"], axis=0)]
    return model(nodes, {f"v{i}": (4,) for i in range(pieces)}, {"y": (4 * pieces,)})


def _views() -> bytes:
    """As many Reshapes as kernels between them, which keep them from becoming one."""
    nodes = [
        node
        for i in range(LONG_CHAIN)
        for node in (
            helper.make_node("Relu", [f"v{i}"], [f"w{i}"]),
            helper.make_node("Reshape", [f"w{i}", f"shape{i % 2}"], [f"v{i + 1}"]),
        )
    ]
    shapes = {"shape0": np.array([1, 1]), "shape1": np.array([1])}
    return model(nodes, {"v0": (1,)}, {f"v{LONG_CHAIN}": (1,)}, shapes)


def _cold() -> bytes:
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(COLD_LAYERS)]
    shrink = np.float32(COLD_WIDTH * 0.055)
    # No two alike: ONNX Runtime keeps equal weights once.
    weights = {f"w{i}": numbers(COLD_WIDTH, COLD_WIDTH) / (shrink + np.float32(i)) for i in range(COLD_LAYERS)}
    return model(nodes, {"v0": (1, COLD_WIDTH)}, {f"v{COLD_LAYERS}": (1, COLD_WIDTH)}, weights)


def _typed_product(op_type: str, dtype: str, weights: str, made: int) -> bytes:
    rows, inner, columns = PEAK_SIZES
    nodes = [helper.make_node(op_type, ["x", "w"], ["y"])]
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model(
        nodes,
        {"x": (rows, inner)},
        {"y": (rows, columns)},
        {"w": (100 * numbers(inner, columns)).astype(weights)},
        dtypes=(number, made or number),
    )


PEAK_SIZES: Sizes = (256, 768, 768)
PEAKS: Mapping[str, Key] = {dtype: ("peak", (bits,)) for dtype, bits in (("float64", 64), ("float16", 16), ("int8", 8))}
"""Products of other dtypes than float32, whose best rate they tell."""
OVERHEADS: Mapping[Key, Callable[[], bytes]] = {
    SHORT: _short,
    TWIN: _short,
    LONG: _long,
    FEW: partial(_joined, FEW_OPERANDS),
    MANY: partial(_joined, MANY_OPERANDS),
    VIEWS: _views,
    COLD: _cold,
    SPEED: partial(_gemm, 128, 256, 256),
    PEAKS["float64"]: partial(_typed_product, "MatMul", "float64", "float64", 0),
    PEAKS["float16"]: partial(_typed_product, "MatMul", "float16", "float16", 0),
    PEAKS["int8"]: partial(_typed_product, "MatMulInteger", "uint8", "int8", TensorProto.INT32),
}
"""What the costs beside kernels are found from, and the rate of weights that lie in no cache."""


def probe_models() -> Iterator[tuple[Key, bytes]]:
    """The model of every probe."""
    yield from ((key, build()) for key, build in OVERHEADS.items())
    for name, family in {**FAMILIES, **CONVOLUTIONS}.items():
        for sizes in (*family.points(), *CHECKS.get(name, ())):
            yield (name, sizes), family.build(*sizes)
