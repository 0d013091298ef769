"""What is measured: every family at its sizes, and what sessions take beside their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from hetpart.calibration.families import CHECKS, ELEMENTS, Sizes, families
from hetpart.calibration.kernels import elementwise, gemm, typed_product
from hetpart.calibration.models import chain, model, numbers
from hetpart.cost_model.detect import cache_bytes
from hetpart.cost_model.kernel_calls import UNARY
from hetpart.cost_model.moving_calls import GATHER_SHARED

WEIGHING = frozenset({"gemm", "cold"})
"""Probes that read weights more than anything else."""

FLUSHED = frozenset({"few", "long", "kinds", "many", "mixed", "twin", GATHER_SHARED})
"""Probes that are also run after other data passed through all caches."""

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
MIXED: Key = ("mixed", ())
"""Many small kernels, no two alike: each brings its own code and its own notes of the session into the caches. The long
one's bring notes alone."""
KINDS: Key = ("kinds", ())
"""The same of kernels with more code."""
COLD: Key = ("cold", ())
KEPT, OVER = "kept", "over"
"""By layers; and an elementwise op that writes over its input, by elements."""
BEYOND: Key = ("beyond", ())
"""An elementwise op on more than the caches hold."""
SPEED: Key = ("speed", ())
"""Arithmetic alone, in little time: its own best time tells whether the processor is disturbed."""
LONG_CHAIN = 64
FEW_OPERANDS, MANY_OPERANDS = 2, 34
COLD_LAYERS, COLD_WIDTH = 24, 1024
"""Weights of 100 MB, which few caches hold from run to run."""
NARROW, WIDE = 256, 1024
LARGE_CACHE_BYTES = 2**27
"""What is larger may keep parts of more weights than ``COLD_LAYERS``."""
KEPT_LAYERS = (
    *((NARROW, layers) for layers in (2, 4, 8, 16)),
    *((WIDE, layers) for layers in (1, 2, 4, 8, 16, COLD_LAYERS)),
    *(((WIDE, 2 * COLD_LAYERS),) if cache_bytes(3) > LARGE_CACHE_BYTES else ()),
)
"""Width and number: weights of 0.5 MB to 100 MB, read over and over, of which the caches keep so much; to 200 MB where
the last cache is so large. Models with more weights have larger ones, which lie in larger pages. As many bytes are read
as 16 narrow and as one wide layer: what starting more products takes shows there."""
BEYOND_ELEMENTS = 2**24


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


_MIXED_WIDTH = 64


def _mixed() -> bytes:
    nodes = [helper.make_node(op_type, [f"v{i}"], [f"v{i + 1}"]) for i, op_type in enumerate(UNARY)]
    shape = (1, _MIXED_WIDTH)
    return model(nodes, {"v0": shape}, {f"v{len(UNARY)}": shape})


KINDS_CHAIN: tuple[tuple[str, tuple[str, ...], Mapping[str, Any]], ...] = (
    ("LayerNormalization", ("scale", "bias"), {}),
    ("Softmax", (), {}),
    ("Gather", ("backwards",), {"axis": 1}),
    ("MatMul", ("square",), {}),
    ("Split", ("halves",), {"axis": 1}),
    ("Pad", ("padding",), {}),
    ("ReduceMean", ("last",), {}),
    ("Expand", ("two_rows",), {}),
    ("Transpose", (), {}),
    ("ReduceSum", ("last",), {"keepdims": 0}),
    ("Mul", ("scale",), {}),
    ("Clip", ("least", "most"), {}),
    ("Greater", ("bias",), {}),
    ("Where", ("scale", "bias"), {}),
    ("TopK", ("width",), {}),
    ("Tile", ("two",), {}),
    ("Slice", ("zero", "width"), {}),
    ("CumSum", ("first",), {}),
    ("Max", ("bias",), {}),
    ("ScatterElements", ("backwards", "scale"), {}),
    ("Add", ("scale",), {}),
    ("Concat", ("bias",), {"axis": 0}),
    ("Sub", ("double",), {}),
    ("Cast", (), {"to": TensorProto.INT32}),
    ("ArgMax", (), {}),
)
"""Op types, what they read beside what the one before makes, and attributes."""
_OUTPUTS = {"Split": 2, "TopK": 2}


def _kinds() -> bytes:
    width = _MIXED_WIDTH
    halves, padding, backwards = np.array([width // 2] * 2), np.array([0, 0, 0, width // 2]), np.arange(width)[::-1]
    constants = {
        "scale": numbers(width), "bias": numbers(width) / 2, "square": numbers(width, width), "first": np.array(0),
        "double": numbers(2 * width), "least": np.array(-9, np.float32), "most": np.array(9, np.float32),
        "backwards": backwards.copy(), "halves": halves, "padding": padding, "two_rows": np.array([2, width]),
        "last": np.array([1]), "zero": np.array([0]), "two": np.array([2]), "width": np.array([width]),
    }  # fmt: skip
    nodes = [
        helper.make_node(op_type, [f"v{i}", *others], [f"v{i + 1}", f"beside{i}"][: _OUTPUTS.get(op_type, 1)], **given)
        for i, (op_type, others, given) in enumerate(KINDS_CHAIN)
    ]
    return model(
        nodes,
        {"v0": (1, width)},
        {f"v{len(KINDS_CHAIN)}": (1,)},
        constants,
        dtypes=(TensorProto.FLOAT, TensorProto.INT64),
    )


def _layers(width: int, layers: int) -> bytes:
    """Products of one row with square weights, one behind the other."""
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(layers)]
    shrink = np.float32(width * 0.055)
    # No two alike: ONNX Runtime keeps equal weights once.
    weights = {f"w{i}": numbers(width, width) / (shrink + np.float32(i)) for i in range(layers)}
    return model(nodes, {"v0": (1, width)}, {f"v{layers}": (1, width)}, weights)


PEAK_SIZES = (256, 768, 768)
PEAKS: Mapping[str, Key] = {dtype: ("peak", (bits,)) for dtype, bits in (("float64", 64), ("float16", 16), ("int8", 8))}
"""Products of other dtypes than float32, whose best rate they tell."""
OVERHEADS: Mapping[Key, Callable[[], bytes]] = {
    SHORT: _short,
    TWIN: _short,
    LONG: _long,
    FEW: partial(_joined, FEW_OPERANDS),
    MANY: partial(_joined, MANY_OPERANDS),
    VIEWS: _views,
    MIXED: _mixed,
    KINDS: _kinds,
    COLD: partial(_layers, COLD_WIDTH, COLD_LAYERS),
    **{(KEPT, layers): partial(_layers, *layers) for layers in KEPT_LAYERS},
    **{(OVER, (elements,)): partial(elementwise, "Relu", elements) for elements in ELEMENTS},
    BEYOND: partial(elementwise, "Relu", BEYOND_ELEMENTS),
    SPEED: partial(gemm, 128, 256, 256),
    PEAKS["float64"]: partial(typed_product, PEAK_SIZES, "MatMul", "float64", "float64", 0),
    PEAKS["float16"]: partial(typed_product, PEAK_SIZES, "MatMul", "float16", "float16", 0),
    PEAKS["int8"]: partial(typed_product, PEAK_SIZES, "MatMulInteger", "uint8", "int8", TensorProto.INT32),
}
"""What the costs beside kernels are found from, and the rate of weights that lie in no cache."""


def probe_keys(*, thin: bool = False) -> Iterator[Key]:
    """Every probe."""
    yield from OVERHEADS
    for name, family in families(thin=thin).items():
        yield from dict.fromkeys((name, sizes) for sizes in (*family.points(), *CHECKS.get(name, ())))


def probe_models() -> Iterator[tuple[Key, bytes]]:
    """The model of every probe."""
    for key in probe_keys():
        name, sizes = key
        yield key, OVERHEADS[key]() if key in OVERHEADS else families()[name].build(*sizes)
