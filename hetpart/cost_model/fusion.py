"""Groups of ops that ONNX Runtime runs as one kernel when they share a session.

Only what its optimiser is known to fuse is grouped, and only where every value inside a group stays inside: all members
but one, the last, feed members alone. Such a group is convex, so it can always be placed on one device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from hetpart.cost_model.epilogues import (
    EPILOGUES,
    EVERYWHERE,
    EXTENDED,
    NOWHERE,
    ON_CPU,
    ON_CUDA,
    TANH_GELU,
    bias_before,
    quantized_kernel,
)
from hetpart.cost_model.foldings import VIEWS, fold_alike, foldings, takes_operands
from hetpart.cost_model.patterns import fused_formulas
from hetpart.cost_model.quantized import QUANTIZED_ON_CPU
from hetpart.cost_model.session.simplify import Simplified
from hetpart.cost_model.updates import in_place_on
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op


@dataclass(frozen=True, slots=True)
class Fusions:
    """What is fused in a graph, op by op."""

    groups: tuple[int, ...]
    """Smallest op id of the group each op belongs to; its own id when alone."""
    absorbed: tuple[frozenset[Provider], ...]
    """Providers on which the op's output is never written: another member's kernel takes it over."""
    in_place: tuple[frozenset[Provider], ...]
    """Providers on which the op writes a few elements over its first input, and copies none."""
    folded: frozenset[int]
    """Ops that what reads them computes on the way, each for itself; where one alone does they are of its group."""
    simple: Simplified
    """What is left of the graph before anything is fused."""
    kernels: Mapping[int, str]
    """Type of the kernel that a group ends with, by the last op, as the CPU provider calls it; others keep theirs."""
    gone: frozenset[int]
    """Ops that ONNX Runtime takes out before it fuses: they change nothing, or do what another does."""

    def folded_on(self, provider: Provider) -> frozenset[int]:
        """Those of ``folded`` that vanish in a session of ``provider``."""
        return frozenset(op for op in self.folded if provider in self.absorbed[op])


def find_fusions(graph: Graph) -> Fusions:
    """What ONNX Runtime fuses in ``graph`` when all of it runs in one session."""
    wiring = Wiring.of(graph)
    found = _Found.of(wiring)
    taken: set[int] = set()
    for fused in fused_formulas(wiring):
        of_integers = any(is_op(graph.ops[member], "MatMulInteger") for member in fused.members)
        found.fuse(fused.members, fused.kernel, ON_CPU if of_integers else EVERYWHERE)
        taken |= fused.members
    on_cpu = foldings(wiring, taken, Provider.CPU)
    found.fold(on_cpu, on_cpu if fold_alike(wiring) else foldings(wiring, taken, Provider.CUDA), taken)
    for op in wiring.simple.ops:
        consumer = wiring.sole_consumer(op) if found.may_extend(op) else None
        if consumer is not None:
            found.extend(op, consumer)
    found.add_biases()
    found.join_twins()
    in_place = tuple([in_place_on(op, wiring) for op in graph.ops])
    groups = tuple([found.root(op.id) for op in graph.ops])
    gone = frozenset(range(len(graph.ops))) - {op.id for op in wiring.simple.ops}
    return Fusions(groups, tuple(found.absorbed), in_place, found.folded, wiring.simple, found.kernels, gone)


def fusion_groups(graph: Graph) -> tuple[int, ...]:
    """Per op, the smallest op id of the group it is fused in; its own id when it is alone."""
    return find_fusions(graph).groups


@dataclass(slots=True)
class _Found:
    """Groups as they grow."""

    wiring: Wiring
    absorbed: list[frozenset[Provider]]
    parents: list[int]
    folded: frozenset[int] = frozenset()
    kernels: dict[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def of(cls, wiring: Wiring) -> _Found:
        count = len(wiring.graph.ops)
        return cls(wiring, [NOWHERE] * count, list(range(count)))

    def root(self, op: int) -> int:
        while self.parents[op] != op:
            self.parents[op] = self.parents[self.parents[op]]
            op = self.parents[op]
        return op

    def fuse(self, members: frozenset[int], kernel: str, providers: frozenset[Provider]) -> None:
        """Have ``members`` run as one kernel."""
        last = max(members)
        for member in members - {last}:
            self.absorbed[member] |= providers
        self._unite(members)
        self.kernels[last] = kernel

    def join_twins(self) -> None:
        """Have ops that do the same stay on one device, where one does it for all."""
        graph, simple = self.wiring.graph, self.wiring.simple
        for value in simple.same:
            twin, maker = graph.values[value].producer, graph.values[simple.value(value)].producer
            if twin is not None and maker is not None and graph.ops[twin].op_type == graph.ops[maker].op_type:
                self._unite({twin, maker})

    def fold(self, on_cpu: frozenset[int], on_cuda: frozenset[int], taken: AbstractSet[int]) -> None:
        """Have ops vanish into what reads them, on each provider; ``taken`` are those of formulas."""
        self.folded, ops = on_cpu | on_cuda, self.wiring.graph.ops
        for number in sorted(self.folded):
            self.absorbed[number] |= ON_CPU if number in on_cpu else NOWHERE
            self.absorbed[number] |= ON_CUDA if number in on_cuda else NOWHERE
            users = self.wiring.users(ops[number])
            if len(users) == 1:
                self._unite({number, *users, *self._behind_split(ops[number], ops[users[0]])})
            if ops[number].op_type in VIEWS and ops[users[0]].op_type in VIEWS:
                self.kernels[users[0]] = "Reshape"
        for op in self.wiring.simple.ops:
            if is_op(op, "MatMul") and takes_operands(op, self.wiring, taken):
                self.kernels[op.id] = "FusedMatMul"

    def _behind_split(self, transpose: Op, split: Op) -> tuple[int, ...]:
        """The product for which ``transpose`` vanishes, where a Reshape that is left stands between them."""
        between = is_op(transpose, "Transpose") and is_op(split, "Reshape") and split.id not in self.folded
        users = self.wiring.users(split) if between else ()
        return users if len(users) == 1 else ()

    def may_extend(self, op: Op) -> bool:
        """Whether some row speaks of ``op`` as the one that is read."""
        quantized = op.op_type in QUANTIZED_ON_CPU or op.op_type == "DequantizeLinear"
        return op.id not in self.folded and (quantized or self.kernels.get(op.id, op.op_type) in EXTENDED)

    def extend(self, op: Op, consumer: Op) -> None:
        """Have ``consumer``, or what it vanishes into, run as part of what computes ``op`` where a row says so."""
        reader = self.wiring.sole_consumer(consumer) if consumer.id in self.folded else consumer
        if op.domain or reader is None or reader.domain:
            return
        kernel = self.kernels.get(op.id, op.op_type)
        row = quantized_kernel(op, reader, self.wiring) or EPILOGUES.get((kernel, self._kind(reader)))
        providers = NOWHERE if row is None else row.rule(op, reader, self.wiring)
        if row is not None and providers:
            self.absorbed[op.id] |= providers
            self._unite({op.id, consumer.id, reader.id})
            if providers >= ON_CPU:
                self.kernels[reader.id] = row.kernel or kernel

    def _kind(self, op: Op) -> str:
        tanh = op.op_type == "Gelu" and op.attributes.get("approximate") == "tanh"
        return TANH_GELU if tanh else self.kernels.get(op.id, op.op_type)

    def add_biases(self) -> None:
        """Have normalizations that add what they normalize add a bias to it as well."""
        for op in self.wiring.simple.ops:
            bias = bias_before(op, self.wiring) if self.absorbed[op.id] and is_op(op, "Add") else None
            if bias is not None:
                self.absorbed[bias.id] |= self.absorbed[op.id]
                self._unite({bias.id, op.id})

    def _unite(self, members: AbstractSet[int]) -> None:
        """Make one group of ``members``, which read each other, and of what only renames a value between them."""
        for member in members:
            self._join(min(members), member)
            for value in self.wiring.graph.ops[member].uses:
                for renaming in self._renamings(value, members):
                    self._join(member, renaming)

    def _renamings(self, value: int, members: AbstractSet[int]) -> Sequence[int]:
        """Ops between ``value`` and the member whose result stands for it; none where there is no such member."""
        graph, between = self.wiring.graph, list[int]()
        while value in self.wiring.simple.same:
            maker = graph.values[value].producer
            if maker is None or maker in members:
                break
            between.append(maker)
            flowing = (v for v in graph.ops[maker].uses if not graph.values[v].is_constant)
            value = next(flowing, graph.ops[maker].uses[0])
        return between if graph.values[value].producer in members else ()

    def _join(self, first: int, second: int) -> None:
        low, high = sorted((self.root(first), self.root(second)))
        self.parents[high] = low
