"""Families of kernels: the sizes each is measured at, and the model that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf, prod

from hetpart.calibration.kernels import (
    HEADS,
    LOOKUPS,
    batched_gemm,
    binary,
    by_row,
    channel_normalization,
    concatenation,
    convolution,
    depthwise,
    elementwise,
    gather,
    gather_shared,
    gather_tuples,
    gemm,
    largest,
    non_zero,
    normalization,
    pool,
    reduction,
    reduction_across,
    scatter,
    skip_normalization,
    softmax,
    stem,
    transpose,
    transposed_gemm,
)  # fmt: skip
from hetpart.calibration.models import CONTRIB
from hetpart.cost_model.moving_calls import GATHER_SHARED, LEAST_SHARED, WIDEST_SHARED
from hetpart.cost_model.product_calls import FEWEST_TOGETHER

Sizes = tuple[int, ...]
MOST_FLOPS = 4e8
"""Larger convolutions, and products of a batch, take too long for a probe; their rate no longer changes."""
MOST_PRODUCT_FLOPS = 7e9
"""Larger products take too long. Their rate sinks where the left side no longer fits the core's own cache."""
MOST_SORTED = 2**21
"""More elements of rows are sorted at the same rate."""
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
    operands: int = 0
    """Inputs and outputs of the model, beyond those of one call."""
    alone: bool = False
    """One thread runs a call, however many there are."""
    flops: Callable[..., float] | None = None
    """Operations of a call, or elements; those of too many are left out."""
    most_flops: float = MOST_FLOPS
    slows: bool = False
    """What no cache holds takes longer for its size: of those left out, the slowest of the smaller neighbours tells."""
    grows: bool = False
    """No call takes longer than a larger one, along any axis; where it was measured so, it was disturbed."""

    def points(self) -> Iterator[Sizes]:
        """Grid points that are measured."""
        for sizes in product(*self.axes):
            if self.flops is None or self.flops(*sizes) <= self.most_flops:
                yield sizes

    def thinned(self) -> Family:
        """With the ends of every axis and few points between them."""
        return replace(self, axes=tuple(map(_thinned, self.axes)))


THIN = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 3}
MOST_THIN = 4
"""Points of an axis that stay, by those it has."""


def _thinned(axis: Sizes) -> Sizes:
    last, kept = len(axis) - 1, THIN.get(len(axis), MOST_THIN)
    return tuple(axis[round(last * place / max(1, kept - 1))] for place in range(kept))


def _product_flops(*sizes: int) -> float:
    return 2.0 * prod(sizes)


def _looked_up(rows: int, width: int, _: int) -> float:
    return rows * width if rows * width < LEAST_SHARED else inf


def _sorted(rows: int, width: int, count: int) -> float:
    return rows * width if count <= width else inf


_ROWS, _INNER, _COLUMNS = (1, 4, 16, 64, 256, 1024, 4096), (16, 64, 256, 768, 3072), (1, 16, 64, 256, 768, 3072)
_BATCHED = (16, 64, 256, 1024)
ELEMENTS = (1024, 8192, 32_768, 65_536, 131_072, 524_288, 1_048_576, 4_194_304)
_CHANNELS, _POSITIONS = (16, 64, 256, 1024), (49, 196, 784, 3136)
_OUTPUTS = (16, 32, 64, 256, 1024)
"""ONNX Runtime computes one to four blocks of 16 channels at a time, each more at a better rate."""
_ONE_POSITION = 1
"""What pointwise convolutions have behind a pooling of the whole image."""
_LINES, _WIDTHS = (1, 16, 128, 1024), (64, 256, 1024)
_BLOCKS = (512, 8192, 65_536, 131_072, 524_288, 1_048_576, 4_194_304)
_RUNS = (1, 16, 32, 64, 512)
_SPANS, _PIECES = (1, 16, 64, 512, 65_536), (2, 32)
_SPREAD, _REPEATED = (1024, 8192, 65_536, 524_288, 4_194_304), (1, 16, 64, 256, 4096)
_TABLES = (2**14, 2**20, 2**25, TABLE_BYTES)

FAMILIES: Mapping[str, Family] = {
    "gemm": Family((_ROWS, _INNER, _COLUMNS), gemm, flops=_product_flops, most_flops=MOST_PRODUCT_FLOPS, slows=True),
    "batched_gemm": Family(
        ((1, FEWEST_TOGETHER, *_BATCHED), _BATCHED, _BATCHED),
        batched_gemm,
        calls=HEADS,
        flops=_product_flops,
        most_flops=MOST_FLOPS / 2,
    ),
    "batched_gemm_transposed": Family(
        ((1, FEWEST_TOGETHER, 64, 1024), (16, 64), (16, 128, 1024)), transposed_gemm, calls=HEADS, flops=_product_flops
    ),
    "layer_normalization": Family((_LINES, _WIDTHS), normalization, grows=True),
    "skip_layer_normalization": Family((_LINES, _WIDTHS), skip_normalization, grows=True),
    "softmax": Family((_LINES, _WIDTHS), softmax, grows=True),
    "reduction": Family((_LINES, _WIDTHS), reduction),
    "reduction_across": Family(((1, 32, 512), (16, 256), (1, 16, 64)), reduction_across),
    "transpose": Family((_BLOCKS, _RUNS), transpose),
    "concat": Family((_BLOCKS, _SPANS, _PIECES), concatenation),
    "gather": Family(
        ((1, 128, 1024, 8192), (1, 16, 64, 256), _TABLES),
        gather,
        calls=LOOKUPS,
        operands=2 * (LOOKUPS - 1),
        alone=True,
        flops=_looked_up,
        grows=True,
    ),
    GATHER_SHARED: Family(((53_248, 262_144), (1, 16, 64, WIDEST_SHARED), _TABLES), gather_shared),
    "index_tuples": Family(((16, 1024, 16_384), (1, 64)), gather_tuples, grows=True),
    "non_zero": Family(((64, 1024, 16_384, 262_144),), non_zero, alone=True, grows=True),
    "batch_normalization": Family(((16, 64, 256, 1024), (49, 784, 3136)), channel_normalization, grows=True),
    "top_k": Family(
        ((1, 64, 1024), (8, 128, 4096), (1, 4, 64)),
        largest,
        flops=_sorted,
        most_flops=MOST_SORTED,
    ),
    "scatter": Family(((2**10, 2**14, 2**18, 2**22), (1, 64, 4096, 65_536)), scatter),
    "pool": Family((_BLOCKS, (1, 9)), pool),
    **{
        name: Family((ELEMENTS,), partial(elementwise, op_type), grows=True)
        for name, op_type in {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp"}.items()
    },
    "gelu": Family((ELEMENTS,), partial(elementwise, "Gelu", domain=CONTRIB), grows=True),
    "bias_gelu": Family((ELEMENTS,), partial(by_row, "BiasGelu", CONTRIB), grows=True),
    "fast_gelu": Family((ELEMENTS,), partial(elementwise, "FastGelu", domain=CONTRIB), grows=True),
    "add": Family((ELEMENTS,), partial(binary, "Add"), grows=True),
    "div": Family((ELEMENTS,), partial(binary, "Div"), grows=True),
    "pow": Family((ELEMENTS,), partial(binary, "Pow"), grows=True),
    "add_row": Family((_SPREAD, _REPEATED), partial(by_row, "Add", "")),
}
"""Measured end to end."""

CONVOLUTIONS: Mapping[str, Family] = {
    "pointwise": Family(
        (_CHANNELS, _OUTPUTS, (_ONE_POSITION, *_POSITIONS)), partial(convolution, 1), flops=_product_flops
    ),
    "convolution": Family(
        (_CHANNELS, _OUTPUTS, _POSITIONS), partial(convolution, 3), flops=lambda *sizes: 9 * _product_flops(*sizes)
    ),
    "depthwise": Family((_CHANNELS, _POSITIONS), depthwise),
    "stem": Family(((16, 64, 256), (196, 3136, 12_544), (9, 49)), stem),
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
    "gather": ((512, 32, 2**28),),
    GATHER_SHARED: ((400_000, 100, 2**26),),
    "concat": ((200_000, 100, 2), (200_000, 20, 10)),
    "add_row": ((100_000, 100),),
    "reduction_across": ((200, 64, 48),),
    "pointwise": ((128, 512, 784), (96, 32, 400)),
    "convolution": ((128, 128, 784), (32, 48, 400)),
    "depthwise": ((128, 400),),
}
"""Sizes between the points of the tables, by which these are judged."""


def families(*, thin: bool = False) -> dict[str, Family]:
    """All that are measured; ``thin``: with fewer points, and none of those that one thread runs."""
    every = {**FAMILIES, **CONVOLUTIONS}
    return {name: family.thinned() for name, family in every.items() if not family.alone} if thin else every
