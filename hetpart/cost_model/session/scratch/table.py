"""One table: what a kernel takes from the arena while it runs, by provider and op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import Interval, Scratch
from hetpart.devices import Provider

ONNX = ""
CONTRIB = "com.microsoft"
QUANTIZED = "quantized"
"""What stands for the domain of an op that the quantization around it makes an integer kernel of."""
FLOAT_BYTES = 4
"""Most kernels count in float32, whatever they are given."""

Formula = Callable[[Operands, int], Scratch]
"""Of an op and the threads that run it."""
Key = tuple[Provider, str, str]
"""Provider, domain and op type."""

_rows: dict[Key, Formula] = {}
SCRATCH: Mapping[Key, Formula] = MappingProxyType(_rows)
"""What is not in here takes nothing."""


def scratch(
    *op_types: str, domain: str = ONNX, providers: Iterable[Provider] = (Provider.CPU,)
) -> Callable[[Formula], Formula]:
    """Decorator that adds a formula for ``op_types``.

    Raises:
        ValueError: one of them has a formula already.
    """

    def register(formula: Formula) -> Formula:
        for key in ((provider, domain, op_type) for provider in providers for op_type in op_types):
            if key in _rows:
                raise ValueError(f"the scratch of {domain or 'ai.onnx'}.{key[-1]} has two formulas")
            _rows[key] = formula
        return formula

    return register


def at_once(*nbytes: float) -> Scratch:
    """Blocks that are all held from the beginning to the end; those of no byte are not taken."""
    return Scratch(tuple(Interval(0, 0, round(size)) for size in nbytes if size > 0))


class Trace:
    """Blocks as a kernel takes them and gives them back, one after the other."""

    def __init__(self) -> None:
        self._taken: list[list[int]] = []
        self._moment = 0

    def take(self, nbytes: float) -> int:
        """The number of a new block."""
        self._taken.append([self._moment, -1, round(nbytes)])
        return len(self._taken) - 1

    def give_back(self, *blocks: int) -> None:
        """End blocks; what is taken from now on may lie where they were."""
        for block in blocks:
            self._taken[block][1] = self._moment
        self._moment += 1 if blocks else 0

    def play(self, scratch: Scratch, make: Callable[[], object]) -> None:
        """Take and give back what ``scratch`` says, and ``make`` at its moment."""
        numbers: dict[int, int] = {}
        for moment in scratch.moments():
            if moment == scratch.made_at:
                make()
            for number, block in enumerate(scratch.blocks):
                if block.first == moment:
                    numbers[number] = self.take(block.nbytes)
            self.give_back(*(numbers[n] for n, block in enumerate(scratch.blocks) if block.last == moment))

    def next_moment(self) -> int:
        """A moment behind all that was taken so far."""
        self._moment += 1
        return self._moment

    def scratch(self, made_at: int = 0) -> Scratch:
        """All that was taken; what was not given back is held to the end."""
        held = ((first, self._moment if last < 0 else last, nbytes) for first, last, nbytes in self._taken)
        return Scratch(tuple(Interval(*interval) for interval in held if interval[2] > 0), made_at)
