"""Kernels of a session as they come to be, op by op, with what each reads, makes and may overwrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hetpart.cost_model.kernels import gate_of
from hetpart.cost_model.memory import NO_SCRATCH, Scratch
from hetpart.cost_model.session.flow import ChannelsLast, Flow
from hetpart.cost_model.session.forms import Forms, last_made, plain_made, wide_made
from hetpart.cost_model.session.inlined import BodyNumbers
from hetpart.cost_model.session.integers import FIRST, LAST, convolves_bytes, turns
from hetpart.cost_model.session.lane import Lane
from hetpart.cost_model.session.layout import WHOLE_IMAGES, is_image
from hetpart.cost_model.session.made import IN_PLACE, made_by
from hetpart.cost_model.session.members import adds_before_gelu, computing, ends, views
from hetpart.cost_model.session.merge import head_of
from hetpart.cost_model.session.order import BETWEEN, IN_MODEL
from hetpart.cost_model.session.remade import node_number
from hetpart.cost_model.session.reuse import Kernel, Made
from hetpart.cost_model.session.scratch import scratch_of
from hetpart.cost_model.session.scratch.table import at_once
from hetpart.cost_model.session.sequences import sequences_held
from hetpart.cost_model.session.simplify import Simplified, simplified
from hetpart.cost_model.session.widened import WIDENED_IN_MODEL, as_floats, half_body, widened
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

SUMS = frozenset({"Add", "Sum"})
RESIZING = frozenset({"Resize"})
"""What is no Upsample with channels last, as it is with channels in blocks."""
FORMULAS = frozenset({"Erf", "Sigmoid"})
"""Of the formulas of one value that are fused, those computed in the form it has."""


@dataclass(slots=True)
class Building:
    """Kernels as they come to be.

    Values go by the numbers of ``Forms``. The gate that a value is made by has that of its other form lowered by as
    many as there are values.
    """

    graph: Graph
    simple: Simplified
    lane: Lane
    wide: frozenset[int]
    """Ops that compute in float32 though the model has half precision."""
    floats: Graph
    """What ``graph`` is where nothing is in half precision."""
    vanished: Mapping[int, tuple[int, ...]]
    """By the op that alone reads them, those that it computes on the way."""
    remade: frozenset[int] = frozenset()
    """Ops whose kernel ONNX Runtime makes anew, as it computes others on the way."""
    kernels: list[Kernel] = field(default_factory=list[Kernel])
    index: list[int] = field(default_factory=list[int])
    """Of each kernel, ONNX Runtime's number: what its optimiser made comes behind what was there."""
    inlined: int = 0
    """Values of bodies that have numbers."""
    groups: Sequence[tuple[Op, ...]] = ()
    """Ops that share a kernel, of all kernels."""
    waiting: dict[int, tuple[Op, ...]] = field(default_factory=dict[int, tuple[Op, ...]])
    """Transposes that put channels first, by what they make: no kernel runs them for those who read it in blocks."""
    forms: Forms = field(init=False)
    flow: Flow = field(init=False)
    last: ChannelsLast = field(init=False)

    def __post_init__(self) -> None:
        self.forms = Forms(self.graph, self.floats, self.simple, self.lane.blocks)
        self.flow = Flow(self.graph, self.simple, self._on_cpu)
        self.last = ChannelsLast(self.flow, self.groups)

    @property
    def _on_cpu(self) -> bool:
        """The CPU provider computes images with their channels in blocks."""
        return self.lane.provider is Provider.CPU

    def add(self, members: tuple[Op, ...]) -> None:
        """Append the kernel that ``members`` run as, and before it what brings its inputs into the form it reads."""
        wide = members[-1].id in self.wide
        body = half_body(members[-1], self.graph) if wide and len(members) == 1 else None
        in_blocks = self._read_in_blocks(members, wide=wide) if self._on_cpu and body is None else None
        if body is not None:
            self._add_body(members[-1], body)
        elif self._on_cpu and (convolves_bytes(members) or self.last.stays(members)):
            self._add_last(members)
        elif turns(members, LAST, self.graph) and self._lies_last(members):
            self._keep_last(members)
        elif turns(members, LAST, self.graph) and self.forms.is_blocked(members[-1].uses[0]):
            self._bring_last(members[-1])
        elif self._on_cpu and turns(members, FIRST, self.graph):
            self.waiting[members[-1].results[0]] = members
            self.last.values.add(members[-1].results[0])
        elif in_blocks is not None:
            self._add_blocked(members, in_blocks)
        else:
            (self._add_wide if wide else self._add_plain)(members)

    def _read_in_blocks(self, members: tuple[Op, ...], *, wide: bool) -> set[int] | None:
        """What the kernel of ``members`` reads in blocks; None where it computes on plain values."""
        head = head_of(members)
        if head is None:
            (*reads,) = dict.fromkeys(self.flow.read(members))
            images = all(is_image(self.floats.values[value]) for value in members[-1].results)  # else bytes
            known = images and len(reads) == 1 and self.forms.arrives_blocked(reads[0])
            return {*reads} if known and not FORMULAS.isdisjoint(op.op_type for op in members) else None
        arrives = self._is_blocked_or_given if head.op_type in WHOLE_IMAGES else self.forms.arrives_blocked
        in_blocks = self.lane.blocks.read_by(head, self.floats if wide else self.graph, arrives)
        if in_blocks is None:
            return None
        others = (v for op in members[1:] if op.op_type in SUMS and op is not head for v in self.flow.into(op))
        return {*map(self.simple.value, in_blocks), *others}

    def need_plain(self, value: int) -> None:
        """Bring ``value`` into the form of the model where it is there in another alone."""
        if value in self.forms.there:
            return
        if value in self.waiting:
            self._add_plain(self.waiting[value])
            return
        if self.forms.is_half(value) and self.forms.is_blocked(value):
            self._need_wide(value)
        if -1 - value in self.forms.there:
            self._cast(-1 - value, plain_made(self.graph.values[value]), value)

    def _need_wide(self, value: int) -> None:
        """In float32, where it is in half precision."""
        if -1 - value not in self.forms.there:
            source = self.forms.in_blocks(value) if self.forms.is_blocked(value) else value
            self._cast(source, wide_made(plain_made(self.graph.values[value])), value)

    def _need_blocked(self, value: int) -> None:
        if not self.forms.is_blocked(value):
            if self.forms.is_half(value):
                self._need_wide(value)
            self._between(self._before_turn(value), self.forms.made_blocked(value), value)
            self.forms.brought.add(value)

    def _before_turn(self, value: int) -> int:
        """What is brought into blocks for ``value``: what puts its channels first has not run if only that asks."""
        if not self._waits(value):
            return self.forms.number(value)
        source = self.flow.read(self.waiting[value])[0]
        self.need_plain(source)
        return source

    def _cast(self, source: int, made: Made, value: int) -> None:
        self._between(source, made, value, IN_MODEL if self.graph.values[value].dtype == WIDENED_IN_MODEL else None)

    def _between(self, source: int, made: Made, value: int, number: int | None = None) -> None:
        """A kernel that brings ``value`` into another form; what it reads may be what the session was given."""
        self.forms.read(source)
        self._append(Kernel((source,), (made,)), BETWEEN * len(self.graph.ops) + value if number is None else number)

    def _is_blocked_or_given(self, value: int) -> bool:
        source = self.simple.value(value)
        is_made = source in self.waiting or (source in self.forms.there and source not in self.forms.given)
        return self.forms.arrives_blocked(source) or not is_made

    def _add_plain(self, members: tuple[Op, ...]) -> None:
        reads = self.flow.read(members)
        for value in dict.fromkeys(reads):
            self.need_plain(value)
        computed = computing(members)
        made, scratch = self._made_plain(members, computed), self._scratch(members)
        index = self._index(members)
        held = sequences_held(reads, self.graph, self.simple)
        kernel = Kernel(reads, made, scratch, self._ids(computed), views(computed, self.graph), holds=held)
        self._append(self._gated(kernel, members, index), index)

    def _add_blocked(self, members: tuple[Op, ...], in_blocks: set[int]) -> None:
        reads = self.flow.read(members)
        for value in dict.fromkeys(reads):
            plain = self._need_wide if self.forms.is_half(value) else self.need_plain
            (self._need_blocked if value in in_blocks else plain)(value)
        numbers = tuple((self.forms.in_blocks if value in in_blocks else self.forms.number)(value) for value in reads)
        last = members[-1]
        over = numbers[1:] if len(members) > 1 else numbers[:1] if last.op_type in IN_PLACE else ()
        made = tuple(self.forms.made_blocked(v, over) for v in last.results)
        index = last.id + 2 * len(self.graph.ops)
        self._append(self._gated(Kernel(numbers, made, ops=self._ids(computing(members))), members, index), index)

    def _add_last(self, members: tuple[Op, ...]) -> None:
        """A kernel that reads and makes channels last; what it reads is turned where it is not so already."""
        source, *others = self.flow.read(members)
        if convolves_bytes(members):
            for value in dict.fromkeys(others):
                self.need_plain(value)
        number = self._need_last(source)
        made = tuple(last_made(self.graph.values[value]) for value in members[-1].results)
        self.last.values.update((source, *members[-1].results))
        scratch = self._scratch(members)
        beside = others if convolves_bytes(members) else [self._need_last(value) for value in others]
        own = members[-1].op_type if members[-1].op_type in RESIZING else ""
        kernel = Kernel((number, *beside), made, scratch, self._ids(computing(members)), op_type=own)
        anew = members[-1].id + 2 * len(self.graph.ops)
        self._append(kernel, anew if convolves_bytes(members) else self._index(members))

    def _need_last(self, value: int) -> int:
        """The number of ``value`` with channels last: what was put first before is read as it was before that."""
        if value in self.waiting:
            source = self.flow.read(self.waiting[value])[0]
            self.need_plain(source)
            return source
        if -1 - value not in self.forms.there:
            self.forms.read(value)
            self._append(Kernel((value,), (last_made(self.graph.values[value]),)), 3 * len(self.graph.ops) + value)
        return -1 - value

    def _lies_last(self, members: tuple[Op, ...]) -> bool:
        """Whether what they turn is there with channels last, and made so."""
        source = self.flow.read(members)[0]
        return source in self.last.values and source not in self.waiting and -1 - source in self.forms.there

    def _keep_last(self, members: tuple[Op, ...]) -> None:
        """What puts channels last that are so already does nothing."""
        (made,) = members[-1].results
        self.forms.same[made] = -1 - self.flow.read(members)[0]
        self.forms.there.add(made)

    def _made_plain(self, members: tuple[Op, ...], computed: tuple[Op, ...]) -> tuple[Made, ...]:
        """What the kernel that computes ``computed`` of them makes."""
        return tuple(
            made_by(computed, value, self.graph, self.simple, self.lane.provider)
            for op in ends(members)
            for value in op.results
        )

    def _scratch(self, members: tuple[Op, ...]) -> Scratch:
        """What the kernel of ``members`` takes; one that adds a vector before a Gelu keeps the sum."""
        held = next((held for op in members if (held := self.lane.scratch.get(op.id))), NO_SCRATCH)
        if held is NO_SCRATCH and self._on_cpu and adds_before_gelu(members):
            return at_once(self.floats.values[members[-1].results[0]].nbytes)
        return held

    def _index(self, members: tuple[Op, ...]) -> int:
        return node_number(members, len(self.graph.ops), self.remade)

    def _waits(self, value: int) -> bool:
        """Whether it is put first, and nobody has asked for that."""
        return value in self.waiting and value not in self.forms.there

    def _bring_last(self, op: Op) -> None:
        """What brings channels out of blocks puts them last at once."""
        source, (made,) = self.forms.in_blocks(self.simple.value(op.uses[0])), op.results
        self._append(Kernel((source,), (plain_made(self.graph.values[made]),)), op.id + 2 * len(self.graph.ops))

    def _add_wide(self, members: tuple[Op, ...]) -> None:
        reads = self.flow.read(members)
        for value in dict.fromkeys(reads):
            (self._need_wide if self.forms.is_half(value) else self.need_plain)(value)
        computed = computing(members)
        made, scratch = self._made_plain(members, computed), self._scratch(members)
        kernel = Kernel(
            tuple(self.forms.number(value) for value in reads),
            tuple(self.forms.made_wide(one) for one in made), scratch, self._ids(computed), views(computed, self.graph),
        )  # fmt: skip
        self._append(kernel, self._index(members))

    def _add_body(self, op: Op, body: Graph) -> None:
        """The kernels of the function that ``op`` is, which ONNX Runtime puts in its place before it casts."""
        for value in self.flow.into(op):
            (self._need_wide if self.forms.is_half(value) else self.need_plain)(value)
            self.forms.read(self.forms.number(value))
        inner, numbers = _of_body(body, self.lane), BodyNumbers(op, body, self.graph, self.simple, self.inlined)
        inner.forms.there.update(numbers.given(self.forms.there))
        for each in inner.simple.ops:
            inner.add((each,))
        self.inlined += len(inner.kernels)
        for kernel in inner.kernels:
            self._append(numbers.renumbered(kernel, self._ids((op,))), len(self.graph.ops) + op.id)

    def _gated(self, kernel: Kernel, members: tuple[Op, ...], index: int) -> Kernel:
        """What is left of ``kernel`` when the gate is made that it takes, if it takes one."""
        gate = gate_of(self.lane.provider, members[-1]) if len(members) == 1 else None
        if gate is None:
            return kernel
        (made,) = kernel.makes
        number = -1 - len(self.graph.values) - members[-1].results[0]
        self._append(replace(kernel, makes=(replace(made, value=number, over=()),), op_type=gate), index)
        return replace(kernel, reads=(*kernel.reads, number), op_type="Mul")

    def _ids(self, members: tuple[Op, ...]) -> tuple[int, ...]:
        before = [number for op in members for number in self.vanished.get(op.id, ())]
        return (*before, *(op.id for op in members))

    def _append(self, kernel: Kernel, index: int) -> None:
        self.kernels.append(self.forms.as_it_lies(kernel))
        self.index.append(index)
        self.forms.there.update(made.value for made in kernel.makes)


def _of_body(body: Graph, lane: Lane) -> Building:
    """A session of a function's body, which has no kernels yet: nothing is fused in it."""
    simple = simplified(body, range(len(body.ops)), frozenset(body.outputs))
    wide, floats = widened(simple.ops, body, frozenset()), as_floats(body)
    scratch = {op.id: scratch_of(op, floats, lane.provider, lane.threads) for op in simple.ops}
    return Building(body, simple, replace(lane, scratch=scratch), wide, floats, {})
