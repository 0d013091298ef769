"""Everything a problem's placements can be, as a network of states with one layer per op."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hetpart.devices import ACCELERATOR
from hetpart.partitioner.bounds.certain import Sweep
from hetpart.partitioner.bounds.in_order import InOrder
from hetpart.partitioner.bounds.passage_states import NO_STEP
from hetpart.partitioner.bounds.passage_steps import Passage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from hetpart.partitioner.bounds.passage_states import State, Step
    from hetpart.partitioner.problem import PlacementProblem

_State = TypeVar("_State")
_Place = TypeVar("_Place")
MOST_STATES = 4000
"""Of a layer."""
MOST_STEPS = 200_000
"""Of all layers: wider problems are left to programs."""
PARTS = 16
"""What is held counts in so many parts of the budget."""


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What some placements have at most, (B,) each."""

    between: NDArray[np.float64]
    inside: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Steps of one op, sorted by the state they lead to."""

    before: NDArray[np.int64]
    """State each step comes from."""
    behind: NDArray[np.int64]
    """State each step leads to."""
    seconds: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    between: NDArray[np.float64]
    """With what the state before holds, rounded down."""
    alone: NDArray[np.float64]
    """Without it."""
    beside: NDArray[np.float64]
    """Beside it; less than 0 where it is not there any more."""
    inside: NDArray[np.float64]
    held: NDArray[np.float64]
    """What the state behind holds more."""
    keeps: NDArray[np.bool_]
    """Whether it holds what the state before held."""
    side: NDArray[np.int8]
    starts: NDArray[np.int64]
    """Per state behind the op: its first step."""
    order: NDArray[np.int64]
    """Steps by the state they come from."""
    offsets: NDArray[np.int64]
    """Of the state before: its steps are ``order[offsets[i]:offsets[i + 1]]``."""

    @classmethod
    def of(cls, steps: list[tuple[int, int, Step]], held: list[int]) -> Layer:
        """Of (state behind, state before, step), and of what each state before holds."""
        steps.sort(key=lambda one: one[0])
        behind = np.array([one for one, _, _ in steps], np.int64)
        before = np.array([one for _, one, _ in steps], np.int64)
        order = np.argsort(before, kind="stable")
        taken = [step for _, _, step in steps]
        return cls(
            before,
            behind,
            np.array([step.seconds for step in taken]),
            np.array([step.nbytes for step in taken]),
            np.array([step.most_between(held[one]) for _, one, step in steps], np.float64),
            np.array([step.between for step in taken], np.float64),
            np.array([step.beside for step in taken], np.float64),
            np.array([step.inside for step in taken], np.float64),
            np.array([step.held for step in taken], np.float64),
            np.array([step.keeps for step in taken], np.bool_),
            np.array([step.side for step in taken], np.int8),
            np.flatnonzero(np.diff(behind, prepend=-1)),
            order,
            np.searchsorted(before[order], np.arange(len(held) + 1)),
        )

    def priced(self, prices: NDArray[np.float64], room: Room) -> NDArray[np.float64]:
        """(steps, B) Seconds of every step at prices of a byte; infinite where it takes more than ``room``."""
        nbytes = self.nbytes[:, None]
        too_much = (self.between[:, None] > room.between) | (self.inside[:, None] > room.inside)
        too_much |= nbytes > room.weights
        return np.where(too_much, np.inf, self.seconds[:, None] + nbytes * prices)


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Of all ops."""

    each: tuple[Layer, ...]
    ops: tuple[int, ...]
    """Per layer: how many there are of ops that share a device, and follow each other."""

    @classmethod
    def of(cls, problem: PlacementProblem, sweep: Sweep = Sweep.EITHER) -> Layers | None:
        """The layers of a problem; None where it is too wide, or where nothing fits."""
        budget = int(problem.budgets[ACCELERATOR])
        ops = InOrder.of(problem, sweep)
        passage = Passage(ops, max(1, budget // PARTS))
        together = [[*found] for _, found in groupby(range(problem.ops), ops.group.__getitem__)]

        def through(group: list[int], state: State) -> list[tuple[State, Step]] | None:
            return _through(passage, group, state, budget)

        layers = layered(passage.start, together, through, lambda state: state.held)
        return None if layers is None else cls(layers, tuple(map(len, together)))

    def least(self, prices: NDArray[np.float64], room: Room) -> NDArray[np.float64]:
        """(B,) Seconds of the cheapest placement at each price whose steps all keep to ``room``, each for itself."""
        found = np.zeros((1, len(prices)))
        for layer in self.each:
            found = np.minimum.reduceat(layer.priced(prices, room) + found[layer.before], layer.starts)
        return found.min(axis=0)

    def to_come(self, prices: NDArray[np.float64], room: Room) -> list[NDArray[np.float64]]:
        """Per layer, (states behind it, B): seconds of the cheapest way from each to the end."""
        last = self.each[-1]
        found = [np.zeros((len(last.starts), len(prices)))]
        for layer in reversed(self.each):
            each = (layer.priced(prices, room) + found[-1][layer.behind])[layer.order]
            states = np.full((len(layer.offsets) - 1, len(prices)), np.inf)
            leads_on = np.diff(layer.offsets) > 0
            states[leads_on] = np.minimum.reduceat(each, layer.offsets[:-1][leads_on])
            found.append(states)
        return found[-2::-1]

    def levels(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What any step has between partitions, and inside one: ascending, from 0 on."""
        between = np.concatenate([np.zeros(1), *(layer.between for layer in self.each)])
        inside = np.concatenate([np.zeros(1), *(layer.inside for layer in self.each)])
        return np.unique(between), np.unique(inside)


def layered(
    start: _State,
    places: Iterable[_Place],
    through: Callable[[_Place, _State], Iterable[tuple[_State, Step]] | None],
    held: Callable[[_State], int],
) -> tuple[Layer, ...] | None:
    """A layer for each place: all that may follow there on each state. None of too much, or where nothing follows."""
    states, layers, count = {start: 0}, list[Layer](), 0
    for place in places:
        behind: dict[_State, int] = {}
        steps: list[tuple[int, int, Step]] = []
        for state, number in states.items():
            following = through(place, state)
            if following is None:
                return None
            for found, step in following:
                steps.append((behind.setdefault(found, len(behind)), number, step))
            if count + len(steps) > MOST_STEPS or len(behind) > MOST_STATES:
                return None
        if not steps:
            return None
        count += len(steps)
        layers.append(Layer.of(steps, [held(state) for state in states]))
        states = behind
    return tuple(layers)


def _through(passage: Passage, ops: list[int], state: State, budget: int) -> list[tuple[State, Step]] | None:
    """All that may follow at some ops, one after another, as far as it fits the budget; None of too much."""
    reached = [(state, NO_STEP)]
    for op in ops:
        behind = [(found, so_far.then(step)) for one, so_far in reached for found, step in passage.steps(op, one)]
        held = [step.most_between(state.held) + step.inside + step.nbytes for _, step in behind]
        reached = [found for found, nbytes in zip(behind, held, strict=True) if nbytes <= budget]
        if len(reached) > MOST_STATES:
            return None
    return reached
