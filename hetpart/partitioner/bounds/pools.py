"""What a session's values hold beyond their own lives, because they lie in each other's memory.

ONNX Runtime gives a value the buffer of an earlier one of its form that is done, and keeps the buffer from the first of
them to the last. So while an op runs, buffers of a form are held that were needed together before it and are needed
together after it, as many as both times: had there been fewer, a later value would have found all of them in use, and
then they are held all the same. Before and after are meant along paths, so that no order of the kernels matters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import aligned
from hetpart.partitioner.problem import NO_FORM, NO_OP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetpart.partitioner.bounds.milp import Rows
    from hetpart.partitioner.problem import PlacementProblem

MOMENTS = 24
"""Ops in whose run what is held is counted, one in each stretch of the order."""
SMALL = 0.02
"""Of the most that is held: forms whose buffers are smaller are left out."""
MOST_TOGETHER = 4
"""Values of one form that a kernel is looked at with."""

Level = tuple[int, int]
"""A form, and how many of it at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """What is held together by form, and which kernel runs before which."""

    ops: tuple[tuple[int, ...], ...]
    together: tuple[Mapping[int, tuple[int, ...]], ...]
    """Per kernel: by form, the values it reads and makes."""
    before: tuple[int, ...]
    """Per kernel: a bit for each that runs before it in whatever order."""
    after: tuple[int, ...]

    @classmethod
    def of(cls, problem: PlacementProblem, inner: Mapping[int, int]) -> Kernels:
        assert problem.reuse is not None
        names, kernel = np.unique(problem.reuse.kernels, return_inverse=True)
        of_op: list[int] = kernel.tolist()
        ops: list[list[int]] = [list[int]() for _ in names]
        for op, number in enumerate(of_op):
            ops[number].append(op)
        makers: list[int] = problem.value_producer.tolist()
        uses: list[tuple[int, int]] = list(
            zip(problem.value_uses.rows.tolist(), problem.value_uses.ops.tolist(), strict=True)
        )
        touched = [(value, of_op[op]) for value, op in uses]
        touched += [(value, of_op[maker]) for value, maker in enumerate(makers) if maker != NO_OP]
        forms: list[int] = problem.reuse.forms.tolist()
        found: list[dict[int, list[int]]] = [dict[int, list[int]]() for _ in names]
        for value, number in sorted(set(touched)):
            if forms[value] != NO_FORM and value in inner:
                found[number].setdefault(forms[value], []).append(value)
        together = tuple({form: tuple(values[:MOST_TOGETHER]) for form, values in one.items()} for one in found)
        edges = {(of_op[makers[value]], of_op[op]) for value, op in uses if makers[value] != NO_OP}
        before = _reached(edges, ops)
        return cls(tuple(map(tuple, ops)), together, before, _turned(before))

    def most(self, which: int) -> Counter[int]:
        """By form, the most values together in one of the kernels whose bits are set."""
        found = Counter[int]()
        for kernel in _bits(which):
            for form, values in self.together[kernel].items():
                found[form] = max(found[form], len(values))
        return found


def _reached(edges: set[tuple[int, int]], ops: list[list[int]]) -> tuple[int, ...]:
    """Kernels before each. They come in the order of their last ops, in which no edge runs back."""
    sources: list[list[int]] = [list[int]() for _ in ops]
    for maker, user in edges:
        if maker != user:
            sources[user].append(maker)
    before = [0] * len(ops)
    for kernel in sorted(range(len(ops)), key=lambda kernel: ops[kernel][-1]):
        for maker in sources[kernel]:
            before[kernel] |= before[maker] | 1 << maker
    return tuple(before)


def _turned(before: tuple[int, ...]) -> tuple[int, ...]:
    after = [0] * len(before)
    for kernel, earlier in enumerate(before):
        for other in _bits(earlier):
            after[other] |= 1 << kernel
    return tuple(after)


def _bits(which: int) -> list[int]:
    return [bit for bit, digit in enumerate(reversed(f"{which:b}")) if digit == "1"]


@dataclass(slots=True, eq=False)
class Pools:
    """Writes the rows: at some moments, what is held is at least what lies in buffers of every form."""

    problem: PlacementProblem
    inner: Mapping[int, int]
    """Value → the variable that is 1 where it is made on the accelerator and stays inside."""
    rows: Rows
    new: Callable[[], int]
    kernels: Kernels = field(init=False)
    sizes: dict[int, int] = field(init=False)
    """Bytes of a buffer of each form that counts."""
    known: dict[tuple[int, Level], int] = field(default_factory=dict[tuple[int, Level], int])

    def moments(self) -> list[list[tuple[int, int]]]:
        """At every moment looked at: variables of buffers held, with their bytes."""
        assert self.problem.reuse is not None
        self.kernels = Kernels.of(self.problem, self.inner)
        bytes_of: list[int] = self.problem.value_bytes.tolist()
        forms: list[int] = self.problem.reuse.forms.tolist()
        self.sizes = {form: aligned(bytes_of[value]) for value, form in enumerate(forms) if form != NO_FORM}
        counts = [self._held(kernel) for kernel in range(len(self.kernels.ops))]
        totals = [sum(self.sizes[form] * count for form, count in held.items()) for held in counts]
        least = SMALL * max(totals, default=0)
        self.sizes = {form: size for form, size in self.sizes.items() if size > least}
        chosen = _fullest(totals)
        before = self._needed(chosen, self.kernels.before)
        after = self._needed(chosen[::-1], self.kernels.after)
        return [self._moment(kernel, counts[kernel], before[kernel], after[kernel]) for kernel in chosen]

    def _held(self, kernel: int) -> Counter[int]:
        """By form, buffers held while ``kernel`` runs where everything is on the accelerator."""
        before, after = self.kernels.most(self.kernels.before[kernel]), self.kernels.most(self.kernels.after[kernel])
        return (before & after) | self.kernels.most(1 << kernel)

    def _needed(self, chosen: list[int], far: tuple[int, ...]) -> dict[int, dict[Level, int]]:
        """Per chosen kernel: a variable per level that is 1 where so many were needed together on its far side."""
        found: dict[int, dict[Level, int]] = {}
        for kernel in chosen:
            nearest = next((other for other in reversed(found) if far[kernel] >> other & 1), None)
            here: dict[Level, list[int]] = {}
            for level, variable in (found[nearest] if nearest is not None else {}).items():
                here.setdefault(level, []).append(variable)
            seen = 0 if nearest is None else far[nearest]
            for other in _bits(far[kernel] & ~seen):
                for level in self._levels(other):
                    here.setdefault(level, []).append(self._together(other, level))
            found[kernel] = {level: self._any(variables) for level, variables in here.items()}
        return found

    def _levels(self, kernel: int) -> list[Level]:
        together = self.kernels.together[kernel].items()
        return [(form, count) for form, values in together if form in self.sizes for count in range(1, len(values) + 1)]

    def _together(self, kernel: int, level: Level) -> int:
        """The variable that is 1 where ``kernel`` has so many values of the form inside."""
        form, count = level
        if (kernel, level) not in self.known:
            held = [self.inner[value] for value in self.kernels.together[kernel][form]]
            sets = [list(chosen) for chosen in combinations(held, count)]
            self.known[kernel, level] = self._any(held) if count == 1 else self._all_of_any(sets)
        return self.known[kernel, level]

    def _any(self, variables: list[int]) -> int:
        distinct = sorted(set(variables))
        return distinct[0] if len(distinct) == 1 else self._all_of_any([[variable] for variable in distinct])

    def _all_of_any(self, sets: list[list[int]]) -> int:
        found = self.new()
        for variables in sets:
            terms = Counter(variables)
            self.rows.add([(found, 1.0), *((variable, -1.0) for variable in terms)], 1.0 - len(terms))
        return found

    def _moment(
        self, kernel: int, counts: Counter[int], before: Mapping[Level, int], after: Mapping[Level, int]
    ) -> list[tuple[int, int]]:
        held: list[tuple[int, int]] = []
        for form in sorted(counts.keys() & self.sizes.keys()):
            for count in range(1, counts[form] + 1):
                sets: list[list[int]] = []
                if (form, count) in before and (form, count) in after:
                    sets.append([before[form, count], after[form, count]])
                if (form, count) in self._levels(kernel):
                    sets.append([self._together(kernel, (form, count))])
                if sets:
                    held.append((self._all_of_any(sets), self.sizes[form]))
        return held


def _fullest(totals: list[int]) -> list[int]:
    """In each of some stretches of the order, the kernel in whose run most is held."""
    length = max(1, -(-len(totals) // MOMENTS))
    stretches = (range(start, min(start + length, len(totals))) for start in range(0, len(totals), length))
    return [max(stretch, key=totals.__getitem__) for stretch in stretches]
