"""Seconds that nodes take to start where their code lies in farther caches, from probes of many nodes and of few."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from hetpart.calibration.probes import (
    FEW,
    FEW_OPERANDS,
    KINDS,
    KINDS_CHAIN,
    LONG,
    LONG_CHAIN,
    MANY,
    MANY_OPERANDS,
    MIXED,
    SHORT,
    TWIN,
    Key,
)
from hetpart.calibration.taken import Taken, TakenByKernels, named
from hetpart.cost_model.kernel_calls import UNARY
from hetpart.rates import Starts


@dataclass(frozen=True, slots=True)
class StartProbes:
    """What they took, by ``named`` keys."""

    probes: Mapping[str, Taken]
    profiled: Mapping[str, TakenByKernels]

    @property
    def cool(self) -> Starts:
        return self._starts(lambda taken: taken.cool)

    @property
    def cold(self) -> Starts:
        """Code of either size is fetched from farther away: what makes it longer by less was disturbed less."""
        cool, cold = self.cool, self._starts(lambda taken: taken.far)
        if not (cool.unary and cool.other):
            return cold
        longer = min(cold.unary / cool.unary, cold.other / cool.other)
        return Starts(cold.node, cool.unary * longer, cool.other * longer)

    @property
    def cold_operand_seconds(self) -> float:
        return max(0.0, self._longer(MANY, FEW, lambda taken: taken.far) / (MANY_OPERANDS - FEW_OPERANDS))

    @property
    def filled_seconds(self) -> float:
        """Of a kernel that does next to nothing, right behind what filled the core's own caches."""
        alone = self.profiled[named(SHORT)]
        longer = alone.cool["Relu"] - alone.warm["Relu"]
        return max(0.0, longer - self.cool.node - self.cool.unary)

    def _starts(self, state: Callable[[Taken], float]) -> Starts:
        node = max(0.0, self._longer(LONG, TWIN, state) / (LONG_CHAIN - 1))
        unary, other = (
            max(0.0, self._longer(key, TWIN, state) / (count - 1) - node)
            for key, count in ((MIXED, len(UNARY)), (KINDS, len(KINDS_CHAIN)))
        )
        return Starts(node, unary, other)

    def _longer(self, more: Key, less: Key, state: Callable[[Taken], float]) -> float:
        """What ``more`` takes longer than ``less``, the longer in ``state`` than in the caches of a core."""
        many, one = self.probes[named(more)], self.probes[named(less)]
        return (state(many) - state(one)) - (many.warm - one.warm)


def least_starts(samples: Sequence[Mapping[str, Taken]]) -> dict[str, Taken]:
    """The least that any number of threads took of what one thread does, however many there are.

    A run right behind a flush is rare in a minute, and one that other work did not disturb rarer still.
    """
    keys = [named(key) for key in (TWIN, LONG, MIXED, KINDS, FEW, MANY)]
    keys = [key for key in keys if all(key in one for one in samples)]
    return {key: reduce(Taken.least, [one[key] for one in samples]) for key in keys}
