"""The kernels of a session whose Transposes were pushed, in terms of the model it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.reuse import Kernel, Made
from hetpart.cost_model.session.rewired.pushing import Pushed
from hetpart.graph.ir import Graph


@dataclass(frozen=True, slots=True)
class Told:
    """How a pushed session is told of in terms of ``graph``, which it is of."""

    graph: Graph
    pushed: Pushed

    def is_changed(self, place: int) -> bool:
        """Whether an op was put in, or does along other axes what it did."""
        key, ops = self.pushed.keys[place], self.graph.ops
        return key >= len(ops) or self.pushed.graph.ops[place].attributes != ops[key].attributes

    def unchanged(self, scratch: Mapping[int, Scratch]) -> dict[int, Scratch]:
        """What kernels of ops that are as they were take, by their number in the session."""
        places = (place for place in range(len(self.pushed.keys)) if not self.is_changed(place))
        return {place: scratch[key] for place in places if (key := self.pushed.keys[place]) in scratch}

    @property
    def above(self) -> int:
        """By how much the numbers of kernels are raised."""
        return 1 + max(*self.pushed.keys, len(self.graph.ops))

    def indices(self, numbers: Sequence[int]) -> list[int]:
        """ONNX Runtime's numbers of kernels: ops that were put in come behind those of the model."""
        count, keys, above = len(self.pushed.graph.ops), self.pushed.keys, self.above
        behind = [min(number // count, len(FORMS)) if number >= 0 else 0 for number in numbers]
        places = [number - form * count for number, form in zip(numbers, behind, strict=True)]
        return [
            form * above + (keys[place] if place >= 0 and form < len(FORMS) else place)
            for form, place in zip(behind, places, strict=True)
        ]

    def kernel(self, kernel: Kernel) -> Kernel:
        """``kernel`` with numbers of ops and values that ``graph`` has; ops that were put in are not named."""
        ops = tuple([key for key in (self.pushed.keys[op] for op in kernel.ops) if key < len(self.graph.ops)])
        put_in = "" if ops or not kernel.ops else self.pushed.graph.ops[kernel.ops[-1]].op_type
        return replace(
            kernel,
            reads=self._values(kernel.reads),
            makes=tuple(map(self._made, kernel.makes)),
            ops=ops,
            op_type=kernel.op_type or put_in,
            holds=self._values(kernel.holds),
        )

    def _values(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple(map(self._value, values))

    def _value(self, value: int) -> int:
        """A value's number, whatever form it has; new ones, in whatever form, have numbers above all others."""
        count, own = len(self.graph.values), len(self.pushed.graph.values)
        form, of = (-1, value) if value >= 0 else divmod(-1 - value, own)
        if of >= count:
            return (form + 2) * own + of
        return value if form < 0 else -1 - of - form * count

    def _made(self, made: Made) -> Made:
        view = None if made.view_of is None else self._value(made.view_of)
        return replace(made, value=self._value(made.value), view_of=view, over=self._values(made.over))


FORMS = ("alone", "fused", "in blocks")
"""What kernels are numbered by, one behind the other."""
