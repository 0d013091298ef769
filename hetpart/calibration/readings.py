"""From what probes took to what a kernel takes, and what a session takes beside its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod

from hetpart.calibration.families import CHECKS, FAMILIES, Family, Sizes, families
from hetpart.calibration.fit import scaled, table
from hetpart.calibration.probes import (
    BEYOND,
    BEYOND_ELEMENTS,
    COLD,
    COLD_LAYERS,
    COLD_WIDTH,
    FEW,
    FEW_OPERANDS,
    KEPT,
    KEPT_LAYERS,
    LONG,
    LONG_CHAIN,
    MANY,
    MANY_OPERANDS,
    NARROW,
    OVER,
    PEAK_SIZES,
    PEAKS,
    SHORT,
    TWIN,
    VIEWS,
    WIDE,
    Key,
)
from hetpart.cost_model.moving_calls import GATHER, GATHER_SHARED
from hetpart.rates import LEAST_SECONDS, RateTable

LARGE = 20
"""Products of a twentieth of the largest's operations reach the best rate too."""
_FLOAT_BYTES = 4
_SHORT_ROW = 16
PRODUCT = "gemm"
OF_PIECES = frozenset({"concat"})
"""Families whose last size is how many operands they have."""
_REORDERS = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True, slots=True)
class Readings:
    """What all probes took on one device, in one state of its caches."""

    runs: Mapping[Key, float]
    """Seconds of a run, of probes measured end to end."""
    kernels: Mapping[Key, Mapping[str, float]]
    """Seconds of each kernel by op type, of those that were profiled."""
    noting: float
    """Seconds that the profile itself adds to a kernel."""
    whole: Mapping[str, RateTable] | None = None
    """Tables of one thread, where these probes are fewer."""
    _least_run: float = field(init=False, repr=False)
    """Of those that an overhead is taken off."""

    def __post_init__(self) -> None:
        taken_off = (seconds for (name, _), seconds in self.runs.items() if name in FAMILIES or name == OVER)
        object.__setattr__(self, "_least_run", min(taken_off, default=inf))

    @property
    def launch(self) -> float:
        return max(LEAST_SECONDS, (self.runs[LONG] - self.runs[SHORT]) / (LONG_CHAIN - 1))

    @property
    def session(self) -> float:
        return max(LEAST_SECONDS, self.runs[SHORT] - self.launch)

    @property
    def beside(self) -> float:
        """Seconds of a probe's run beside its kernel: what its session keeps is as cold as its operands.

        Every run takes those and a kernel's start. Where other work disturbed the one probe that tells them, the least
        run bounds them: else all that is shorter than a disturbed probe would seem to take nothing.
        """
        return min(self.runs[TWIN], self._least_run) - self.launch

    @property
    def overhead_excess(self) -> float:
        """The probe that tells what runs take beside their kernels, to the least run."""
        return self.runs[TWIN] / self._least_run

    @property
    def operand(self) -> float:
        # What an input of a session costs beside its kernel is a small part of it.
        return max(0.0, (self.runs[MANY] - self.runs[FEW]) / (MANY_OPERANDS - FEW_OPERANDS))

    @property
    def visit(self) -> float:
        return max(0.0, (self.runs[VIEWS] - self.runs[LONG]) / LONG_CHAIN)

    @property
    def far_row(self) -> float:
        """Of finding one row in a table that no cache holds, beyond one that lies in a cache."""
        near, far = FAMILIES[GATHER].axes[2][0], FAMILIES[GATHER].axes[2][-1]
        return max(0.0, self.call((GATHER, (1, _SHORT_ROW, far))) - self.call((GATHER, (1, _SHORT_ROW, near))))

    def call(self, key: Key) -> float:
        """Seconds of one call of the kernel that ``key`` names."""
        name, sizes = key
        if key in self.kernels:
            return max(self.launch, self.kernels[key]["Conv"] - self.noting)
        family = self._family(name)
        operands = sizes[-1] - FEW_OPERANDS if name in OF_PIECES else family.operands
        return (self.runs[key] - self.beside - operands * self.operand) / family.calls

    @property
    def _families(self) -> Mapping[str, Family]:
        return families(thin=self.whole is not None)

    def _family(self, name: str) -> Family:
        return self._families[name]

    def tables(self) -> dict[str, RateTable]:
        """Of every family; of those that these threads leave to one, its own."""
        own = {name: self.table(name) for name in self._families if self._is_whole(name)}
        return dict(self.whole or {}) | own

    def _is_whole(self, name: str) -> bool:
        """Whether every size was measured."""
        keys = [(name, sizes) for sizes in (*self._family(name).points(), *CHECKS.get(name, ()))]
        return all(key in self.runs or key in self.kernels for key in keys)

    def table(self, name: str) -> RateTable:
        """Of one family."""
        family = self._family(name)
        seconds = {sizes: self.call((name, sizes)) for sizes in family.points()}
        if family.operands:
            # The least call takes what starting a kernel does: what it lacks was taken off for operands, of every call.
            lacking = max(0.0, self.launch - min(seconds.values()))
            seconds = {sizes: taken + lacking for sizes, taken in seconds.items()}
        return table(family, seconds) if self.whole is None else scaled(self.whole[name], family, seconds)

    def streaming(self, cool: Readings) -> RateTable:
        """Of products whose weights come from main memory, from readings in which they do.

        Since a probe's last run its session and its code were pushed out with its weights: what the least product takes
        longer than in ``cool`` readings is theirs. In a model, the products before have warmed them.
        """
        family = self._family(PRODUCT)
        least = next(family.points())
        pushed_out = max(0.0, self.call((PRODUCT, least)) - cool.call((PRODUCT, least)))
        seconds = {
            sizes: max(cool.call((PRODUCT, sizes)), self.call((PRODUCT, sizes)) - pushed_out)
            for sizes in family.points()
        }
        return table(family, seconds) if self.whole is None else scaled(self.whole[PRODUCT], family, seconds)

    def reordering(self) -> RateTable:
        """By elements: what bringing the channels of pointwise convolutions' images into blocks and back took."""
        least: dict[int, float] = {}
        for inputs, outputs, positions in self._family("pointwise").points():
            kernels = self.kernels["pointwise", (inputs, outputs, positions)]
            for op_type, channels in zip(_REORDERS, (inputs, outputs), strict=True):
                seconds = kernels.get(op_type, inf) - self.noting
                least[channels * positions] = min(least.get(channels * positions, inf), max(LEAST_SECONDS, seconds))
        known = {elements: seconds for elements, seconds in sorted(least.items()) if seconds < inf}
        return RateTable((tuple(map(float, known)),), tuple(known.values()))

    def keeping(self) -> RateTable:
        """By bytes of all weights: what reading them over and over takes, for ever more of them no faster.

        Starting a product is a part of what a narrow one takes, and no part of reading weights: narrow layers are
        brought to the rate of as many bytes in one wide layer.
        """
        rate, known = 0.0, dict[int, float]()
        started = self._kept_rate(WIDE, 1) / self._kept_rate(NARROW, (WIDE // NARROW) ** 2)
        for width, layers in KEPT_LAYERS:
            rate = max(rate, self._kept_rate(width, layers) * (started if width == NARROW else 1.0))
            nbytes = _weight_bytes(width, layers)
            known[nbytes] = max(LEAST_SECONDS, rate * nbytes)
        return RateTable((tuple(map(float, known)),), tuple(known.values()))

    def _kept_rate(self, width: int, layers: int) -> float:
        """Seconds a byte."""
        return (self.runs[KEPT, (width, layers)] - self.beside) / _weight_bytes(width, layers)

    def overwriting(self) -> RateTable:
        """By elements: an elementwise op that writes over its input."""
        known = {sizes: self.runs[OVER, sizes] - self.beside for sizes in FAMILIES["relu"].points()}
        return table(FAMILIES["relu"], known)

    @property
    def bandwidth(self) -> float:
        """Bytes/s of elementwise ops beyond the caches."""
        return 2 * _FLOAT_BYTES * BEYOND_ELEMENTS / self.runs[BEYOND]

    def bandwidths(self, tables: Mapping[str, RateTable], table_bytes: int) -> dict[str, float]:
        """Bytes/s of elementwise ops beyond the caches, of short rows of a large table, of weights once."""
        looked_up = FAMILIES[GATHER_SHARED].axes[0][-1]
        rows = tables[GATHER_SHARED].at((looked_up, _SHORT_ROW, table_bytes))
        return {
            "bandwidth": self.bandwidth,
            "random_bandwidth": _FLOAT_BYTES * looked_up / rows,
            "cold_bandwidth": _FLOAT_BYTES * COLD_LAYERS * COLD_WIDTH**2 / self.runs[COLD],
        }

    def peaks(self) -> dict[str, float]:
        """Operations a second of large products, by dtype."""
        points = list(self._family("gemm").points())
        large = [sizes for sizes in points if prod(sizes) * LARGE >= max(map(prod, points))]
        float32 = max(self._rate(("gemm", sizes), sizes) for sizes in large)
        others = {dtype: self._rate(key, PEAK_SIZES) for dtype, key in PEAKS.items() if key in self.runs}
        return {"float32": float32, **others}

    def _rate(self, key: Key, sizes: Sizes) -> float:
        return 2.0 * prod(sizes) / max(LEAST_SECONDS, self.runs[key] - self.beside)

    def errors(self, tables: Mapping[str, RateTable]) -> list[float]:
        """Relative errors of the tables at sizes that are no points of theirs."""
        return [
            abs(tables[name].at(sizes) / self.call((name, sizes)) - 1)
            for name in tables.keys() & CHECKS.keys() & self._families.keys()
            for sizes in CHECKS[name]
        ]


def _weight_bytes(width: int, layers: int) -> int:
    return _FLOAT_BYTES * width**2 * layers
