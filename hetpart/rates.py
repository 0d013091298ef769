"""What kernels were measured to take: tables of seconds by size, read between and beyond their points."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log, prod

LEAST_SECONDS = 1e-7
"""No kernel takes less: what remains after overheads were taken off may be noise around nothing. One that does next to
nothing took 0.14 to 0.16 µs on a processor of 4.1 GHz."""
LEAST_QUIET = 0.2
"""Of the time: where a processor was undisturbed for less, that did not suffice for every figure."""
MOST_EXCESS = 1.25
"""Of the probe of what sessions take beside their kernels: undisturbed it took 0.95 to 0.98 times the least run."""


@dataclass(frozen=True, slots=True)
class RateTable:
    """Seconds of one kernel on a grid of sizes.

    Between points the logarithm of the seconds is linear in the logarithm of every size; below the first point the
    seconds stay what they are there, for fixed costs dominate; above the last they grow in proportion to the size.
    """

    axes: tuple[tuple[float, ...], ...]
    """Sizes along every axis, ascending."""
    seconds: tuple[float, ...]
    """Of every grid point, the last axis fastest."""

    def __post_init__(self) -> None:
        if len(self.seconds) != prod(map(len, self.axes)) or not all(map(_ascends, self.axes)):
            raise ValueError(
                f"{len(self.seconds)} seconds on axes of {[len(axis) for axis in self.axes]} ascending points"
            )

    def at(self, sizes: Sequence[float]) -> float:
        """Seconds of a call of these sizes, one an axis."""
        total = 0.0
        for index, weight in self.read(sizes):
            total += weight * log(self.seconds[index])
        return exp(total) * prod(max(1.0, size / axis[-1]) for axis, size in zip(self.axes, sizes, strict=True))

    def read(self, sizes: Sequence[float]) -> list[tuple[int, float]]:
        """The points that a call of these sizes is read between, and the weight of each; they sum to 1."""
        corners = [(0, 1.0)]
        for axis, size in zip(self.axes, sizes, strict=True):
            place, up = _place(axis, size)
            corners = [(index * len(axis) + place, weight * (1 - up)) for index, weight in corners] + (
                [(index * len(axis) + place + 1, weight * up) for index, weight in corners] if up else []
            )
        return sorted(corners)

    def at_most(self, sizes: Sequence[float]) -> float:
        """The same, at the rate of the largest first size: that of what no cache holds, however small the call is."""
        first, *rest = sizes
        most = self.axes[0][-1]
        return self.at((most, *rest)) * first / most

    def at_rate_below(self, sizes: Sequence[float]) -> float:
        """The same, at the rate of the next smaller point of the last axis."""
        *others, last = sizes
        place, _ = _place(self.axes[-1], last)
        below = self.axes[-1][place]
        return self.at((*others, min(last, below))) * max(1.0, last / below)

    def up_to(self, size: float, rate: float) -> RateTable:
        """A table of one axis with a last point of ``size``, at ``rate`` units of it a second at most.

        One that reaches as far stays as it is.
        """
        (sizes,) = self.axes
        if size <= sizes[-1]:
            return self
        seconds = size * max(self.seconds[-1] / sizes[-1], 1 / rate)
        return RateTable(((*sizes, size),), (*self.seconds, seconds))

    def times(self, factor: float) -> RateTable:
        """The table with all seconds multiplied."""
        return RateTable(self.axes, tuple(seconds * factor for seconds in self.seconds))

    def times_at(self, factors: Mapping[int, float]) -> RateTable:
        """The table with the seconds of some points multiplied, each by its own factor."""
        return RateTable(self.axes, tuple(s * factors.get(index, 1.0) for index, s in enumerate(self.seconds)))


def _place(axis: tuple[float, ...], size: float) -> tuple[int, float]:
    """The point of ``axis`` at or below ``size``, and the weight of the next one, 0 to 1."""
    if size <= axis[0]:
        return 0, 0.0
    if size >= axis[-1]:
        return len(axis) - 1, 0.0
    index = bisect_right(axis, size) - 1
    return index, log(size / axis[index]) / log(axis[index + 1] / axis[index])


def _ascends(axis: tuple[float, ...]) -> bool:
    return bool(axis) and axis[0] > 0 and all(first < second for first, second in pairwise(axis))


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds of passing a node whose notes and code lie in the last cache, or in none, beyond one that is repeated."""

    node: float = 0.0
    """For what the session keeps of it."""
    unary: float = 0.0
    """Beside that, for the code of a kernel of one operand, element by element."""
    other: float = 0.0
    """For that of any other kernel, of which there is more: twice as long on a Xeon with 2 MB of core caches."""

    def times(self, factor: float) -> Starts:
        return Starts(self.node * factor, self.unary * factor, self.other * factor)


@dataclass(frozen=True, slots=True)
class KernelRates:
    """What a calibration found for one device at one number of threads. Rates are per second."""

    tables: Mapping[str, RateTable]
    """By kernel family: seconds of a call, its start included, whose operands lie in the last cache."""
    warm_tables: Mapping[str, RateTable]
    """The same where they lie in the core's own caches, as in models that are small."""
    weights_table: RateTable
    """Seconds of reading weights over and over, by bytes of all of them: it tells what the caches keep of them."""
    cool: Starts
    """Of nodes whose notes and code other data pushed into the last cache."""
    cold: Starts
    """Of those whose notes and code lie in no cache."""
    filled_seconds: float
    """Of passing a node behind a kernel whose operands filled the core's own caches, beyond ``cool``: what running any
    node takes lies in the last cache too."""
    constant_seconds: float
    """Of reading a small constant that no cache holds."""
    session_seconds: float
    """Of one run of a session beside its kernels."""
    hop_seconds: float
    """Of handing a run to a partition of another device, beside that partition's session and the copy."""
    launch_seconds: float
    """Of starting one kernel."""
    visit_seconds: float
    """Of passing a node that starts none."""
    operand_seconds: float
    """Of an operand, beyond those that kernels usually have."""
    bandwidth: float
    """Bytes/s of elementwise ops on more than the caches hold."""
    lone_bandwidth: float
    """The same of a kernel that is left to one thread."""
    random_bandwidth: float
    """Bytes/s of looking up short rows."""
    cold_bandwidth: float
    """Bytes/s at which weights come from main memory while a kernel works on them."""
    core_cache_bytes: float
    """Of a core's own caches: what passed through them since is in the last cache."""
    cache_bytes: float
    """Weights that take less stay in the caches from run to run: half of the last cache, which others use too."""
    peak_flops: Mapping[str, float]
    """Best rate of a large matrix product, by dtype."""
    quiet_share: float
    """Of the time, for which no other work slowed the processor; figures are of that time."""
    error: float
    """Mean relative error on sizes that were measured and kept out of the tables."""
    cold_operand_seconds: float = 0.0
    """Of an operand beyond those that kernels usually have, whose notes in the session lie in no cache."""
    overhead_excess: float = 1.0
    """What the probe of sessions beside their kernels took, to the least run of all, which bounds it."""

    @property
    def was_disturbed(self) -> bool:
        """Whether other work slowed the processor for so long that some figures are too slow."""
        return self.quiet_share < LEAST_QUIET or self.overhead_excess > MOST_EXCESS

    def times(self, factor: float) -> KernelRates:
        """The rates of a device that is ``factor`` times as fast; sessions run on the host and take as long."""
        return replace(
            self,
            tables={name: table.times(1 / factor) for name, table in self.tables.items()},
            warm_tables={name: table.times(1 / factor) for name, table in self.warm_tables.items()},
            weights_table=self.weights_table.times(1 / factor),
            launch_seconds=self.launch_seconds / factor,
            cool=self.cool.times(1 / factor),
            cold=self.cold.times(1 / factor),
            filled_seconds=self.filled_seconds / factor,
            constant_seconds=self.constant_seconds / factor,
            cold_operand_seconds=self.cold_operand_seconds / factor,
            bandwidth=self.bandwidth * factor,
            lone_bandwidth=self.lone_bandwidth * factor,
            random_bandwidth=self.random_bandwidth * factor,
            cold_bandwidth=self.cold_bandwidth * factor,
            peak_flops={dtype: rate * factor for dtype, rate in self.peak_flops.items()},
        )
