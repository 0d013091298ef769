# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Sessions of one compiled graph, one for every set of weights that it is called with.

Dynamo has one graph for all modules of one kind, so the layers of a decoder that are compiled one by one share it.
Their weights are theirs: a session reads them where they lie.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING

import torch

from hetpart.dynamo.stamps import Stamps
from hetpart.errors import InfeasibleError

if TYPE_CHECKING:
    from hetpart.dynamo.ledger import Ledger
    from hetpart.dynamo.plans import Planner
    from hetpart.partitioned import PartitionedModel
    from hetpart.runtime.session import Session

Open = Callable[["PartitionedModel", Sequence[torch.Tensor]], "Session"]
"""Opens the session of a plan over weights."""
PinnedPaths = Callable[[Sequence[torch.Tensor]], dict[str, str]]
"""Which modules of the graph are pinned where, of those that weights are of."""


class WeightSet:
    """A plan, and its session over the weights of one module."""

    def __init__(
        self, planner: Planner, ledger: Ledger, opened: Open, pinned: dict[str, str], sizes: Mapping[str, int]
    ) -> None:
        self._planner, self._ledger, self._open, self._pinned = planner, ledger, opened, pinned
        self._sizes = {**sizes, **planner.sizes}
        self._settle(planner.solved(self._sizes, pinned))
        self._session: Session | None = None
        self._stamps: Stamps | None = None

    def _settle(self, planned: PartitionedModel) -> None:
        self._planned = planned
        self._runs = self._planner.for_all_sizes(planned, self._sizes)
        self._leave = self._ledger.enter(self, planned.plan)

    def session(self, weights: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> Session:
        """The session for a call of ``sizes``, opened again where the weights were changed since."""
        self._ledger.patterns.called(weighted=bool(weights), again=self._session is not None)
        if any(size > self._sizes[name] for name, size in sizes.items()):
            self._grow(sizes)
        if self._session is None or self._stamps is None or not self._stamps.hold(weights):
            self._close()
            self._stamps = Stamps.of(weights)
            self._session = self._open(self._runs, weights)
        return self._session

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _grow(self, sizes: Mapping[str, int]) -> None:
        """Plan for ``sizes`` and some more: where the placement does not fit the budget then, another."""
        self._leave()
        larger = {name: _power_of_two(size, self._sizes[name]) for name, size in sizes.items()}
        same = self._planner.at(self._planned, larger)
        self._sizes = larger
        if same is not None:
            self._planned, self._leave = same, self._ledger.enter(self, same.plan)
            return
        self._close()
        try:
            self._settle(self._planner.solved(larger, self._pinned))
        except InfeasibleError:
            self._sizes = {name: max(size, self._sizes[name]) for name, size in sizes.items()}
            self._settle(self._planner.solved(self._sizes, self._pinned))


def _power_of_two(size: int, planned: int) -> int:
    return planned if size <= planned else 1 << (size - 1).bit_length()


class WeightSets:
    """Every set that is in use, by the tensors in it. A set goes when one of its tensors does."""

    def __init__(self, planner: Planner, ledger: Ledger, opened: Open, pinned: PinnedPaths) -> None:
        self._made_of, self._pinned = (planner, ledger, opened), pinned
        self._sets: dict[tuple[int, ...], WeightSet] = {}
        self._turn = RLock()

    def of(self, weights: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> WeightSet:
        """The set that ``weights`` are, for calls of ``sizes`` among others."""
        key = tuple(map(id, weights))
        found = self._sets.get(key)
        if found is None:
            with self._turn:
                found = self._sets.get(key) or self._new(key, weights, sizes)
        return found

    def _new(self, key: tuple[int, ...], weights: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> WeightSet:
        made = self._sets[key] = WeightSet(*self._made_of, self._pinned(weights), sizes)
        for weight in weights:
            weakref.finalize(weight, self._sets.pop, key, None)
        return made
