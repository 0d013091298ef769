"""Which ops of a session run as one kernel, for what its memory holds: inner values of a kernel are never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hetpart.cost_model.epilogues import CONV_ACTIVATIONS
from hetpart.cost_model.fusion import Fusions
from hetpart.cost_model.kernels import gate_of
from hetpart.cost_model.session.lane import Lane
from hetpart.cost_model.session.layout import WHOLE_IMAGES
from hetpart.cost_model.session.simplify import Simplified, is_dequantized
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op, Value

SUMS = frozenset({"Add", "Sum"})
PARTS = frozenset({"Gather", "Slice"})
ACTIVATIONS = frozenset({"Relu", *CONV_ACTIVATIONS})
WITHIN = frozenset({"FastGelu"})
"""Kernels of formulas whose result stays in the session."""
FORMULA = frozenset({"Add", "Mul", "Pow", "Tanh"})
"""What those are written with."""
CONVOLVED = frozenset({"BatchNormalization", "Conv", "Mul"})
"""What may be convolutions: of two that are added the last one adds."""


def merged(
    graph: Graph, simple: Simplified, fusions: Fusions, lane: Lane, returned: frozenset[int]
) -> Iterator[tuple[Op, ...]]:
    """Ops that share a kernel, in the order of the last of each; a convolution stands first among its own."""
    wiring = _Wiring.of(graph, simple, returned, in_blocks=_made_in_blocks(graph, simple, fusions, lane))
    root = _roots(wiring, fusions, lane.provider)
    members: dict[int, list[Op]] = {}
    for op in simple.ops:
        members.setdefault(root[op.id], []).append(op)
    for last in sorted(members):
        yield tuple(sorted(members[last], key=lambda op: (op.op_type != "Conv", op.id)))


def _roots(wiring: _Wiring, fusions: Fusions, provider: Provider) -> dict[int, int]:
    """For every op, the last one that it shares a kernel with."""
    root = {op.id: op.id for op in wiring.simple.ops}
    apart = _left_apart(wiring, fusions)
    for op in wiring.simple.ops:
        if op.op_type == "Conv" and not op.domain:
            chain = _convolution(op, wiring, fusions, provider)
            root.update(dict.fromkeys(chain, chain[-1]))
    for parts in _whole_parts(wiring, fusions, provider):
        root.update(dict.fromkeys(parts, parts[-1]))
    for op in reversed(wiring.simple.ops):
        users = wiring.users(op)
        if op.op_type != "Conv" and op.id not in apart and root[op.id] == op.id and len({root[u] for u in users}) == 1:
            root[op.id] = root[users[0]] if _joins(op, users, wiring, fusions, provider) else op.id
    # What a convolution's chain or a Split ends with may have joined another kernel since.
    return {op: root[last] for op, last in root.items()}


def _left_apart(wiring: _Wiring, fusions: Fusions) -> frozenset[int]:
    """Ops of formulas that stay what they are where their result leaves the session."""
    left = {
        fusions.groups[op.id]
        for op in wiring.simple.ops
        if fusions.kernels.get(op.id) in WITHIN and op.op_type in FORMULA and wiring.returned.intersection(op.results)
    }
    return frozenset(op.id for op in wiring.simple.ops if fusions.groups[op.id] in left and op.op_type in FORMULA)


def _joins(op: Op, users: tuple[int, ...], wiring: _Wiring, fusions: Fusions, provider: Provider) -> bool:
    """Whether the one kernel that uses what ``op`` makes takes it over."""
    if provider in fusions.absorbed[op.id]:
        return True
    user = wiring.graph.ops[users[0]]
    return user.op_type == "Identity" and not user.domain and len(op.results) == 1 and op.op_type not in PARTS


def _made_in_blocks(graph: Graph, simple: Simplified, fusions: Fusions, lane: Lane) -> frozenset[int]:
    """What kernels make in blocks; what is only brought into them for a reader lies beside as it was."""
    if lane.provider is not Provider.CPU:
        return frozenset()
    made = {value for op in simple.ops for value in op.results}
    found: set[int] = set()
    for op in simple.ops:
        given = op.op_type in WHOLE_IMAGES

        def arrives(value: int, given: bool = given) -> bool:
            source = simple.value(value)
            return source in found or (given and source not in made)

        if lane.blocks.read_by(op, graph, arrives) is not None or _is_epilogue(op, graph, simple, fusions, found):
            found.update(op.results[:1])
    return frozenset(found)


def _is_epilogue(op: Op, graph: Graph, simple: Simplified, fusions: Fusions, in_blocks: set[int]) -> bool:
    """Whether a convolution in blocks computes the activation ``op`` on the way out."""
    source = simple.value(op.uses[0]) if op.op_type in ACTIVATIONS and op.uses else None
    producer = None if source is None else graph.values[source].producer
    return source in in_blocks and producer is not None and Provider.CPU in fusions.absorbed[producer]


@dataclass(frozen=True, slots=True)
class _Wiring:
    graph: Graph
    simple: Simplified
    in_blocks: frozenset[int]
    """Images whose channels kernels make in blocks."""
    consumers: Mapping[int, tuple[int, ...]]
    returned: frozenset[int]

    @classmethod
    def of(cls, graph: Graph, simple: Simplified, returned: frozenset[int], in_blocks: frozenset[int]) -> _Wiring:
        found: dict[int, list[int]] = {}
        for op in simple.ops:
            for value in dict.fromkeys(simple.value(v) for v in op.uses):
                found.setdefault(value, []).append(op.id)
        return cls(graph, simple, in_blocks, {value: tuple(ops) for value, ops in found.items()}, returned)

    def is_blocked(self, op: Op) -> bool:
        """Whether it makes an image with its channels in blocks."""
        return not self.in_blocks.isdisjoint(op.results)

    def users(self, op: Op) -> tuple[int, ...]:
        """Every op that reads what ``op`` makes; none where it leaves the session."""
        if self.returned.intersection(op.results):
            return ()
        return tuple(dict.fromkeys(user for value in op.results for user in self.consumers.get(value, ())))

    def sole_user(self, op: Op) -> Op | None:
        users = self.users(op)
        return self.graph.ops[users[0]] if len(users) == 1 else None

    def flowing(self, op: Op) -> tuple[int, ...]:
        """What ``op`` reads beside weights."""
        return tuple(v for v in (self.simple.value(v) for v in op.uses) if not self.graph.values[v].is_constant)

    def constants(self, op: Op) -> tuple[int, ...]:
        """Elements of every weight that ``op`` reads."""
        return tuple(self.graph.values[v].numel for v in op.uses if self.graph.values[v].is_constant)


def _convolution(conv: Op, wiring: _Wiring, fusions: Fusions, provider: Provider) -> tuple[int, ...]:
    """The convolution and what its kernel computes on the way out."""
    chain, user = [conv.id], wiring.sole_user(conv)
    while user is not None and provider in fusions.absorbed[chain[-1]]:
        chain.append(user.id)
        user = wiring.sole_user(user)
    if wiring.graph.ops[chain[-1]].op_type in ACTIVATIONS:
        return tuple(chain)
    adds = user is not None and user.op_type in SUMS and _adds(conv, chain[-1], user, wiring, provider)
    if adds and user is not None:
        chain.append(user.id)
        user = wiring.sole_user(user)
    if user is not None and ((adds and user.op_type in ACTIVATIONS) or _takes_gate(conv, user, wiring, provider)):
        chain.append(user.id)
    return tuple(chain)


def _takes_gate(conv: Op, user: Op, wiring: _Wiring, provider: Provider) -> bool:
    """Whether a convolution in blocks computes the gate and the product behind it, which stay in the session."""
    stays = gate_of(provider, user) is not None and wiring.returned.isdisjoint(user.results)
    return stays and wiring.is_blocked(conv)


def _adds(conv: Op, before: int, add: Op, wiring: _Wiring, provider: Provider) -> bool:
    """Whether the kernel of ``conv`` adds a residual: on channels in blocks, or on CUDA before a Relu."""
    residual = _residual(before, add, wiring)
    if residual is None:
        return False
    maker = None if residual.producer is None else wiring.graph.ops[residual.producer]
    if provider is not Provider.CPU:
        after = wiring.sole_user(add)
        waits = maker is not None and maker.id > before
        return not waits and add.op_type == "Add" and after is not None and after.op_type == "Relu"
    if maker is None or (maker.id > before and maker.op_type in CONVOLVED):
        return False
    return wiring.is_blocked(maker) and wiring.is_blocked(conv)


def _residual(before: int, add: Op, wiring: _Wiring) -> Value | None:
    """What ``add`` adds to what ``before`` makes, in whose place the kernel of a convolution writes the sum."""
    flowing = wiring.flowing(add)
    made = wiring.graph.ops[before].results[0]
    if len(flowing) != len({"image", "residual"}) or flowing.count(made) != 1:
        return None
    residual = wiring.graph.values[flowing[1 - flowing.index(made)]]
    return residual if residual.shape == wiring.graph.values[made].shape else None


def _whole_parts(wiring: _Wiring, fusions: Fusions, provider: Provider) -> Iterator[tuple[int, ...]]:
    """Ops that take a value apart along one axis, all of it: together they are a Split.

    Where each part is quantized behind, each is a kernel of integers.
    """
    taken: dict[tuple[int, int], list[Op]] = {}
    for op in wiring.simple.ops:
        axis = None if provider in fusions.absorbed[op.id] else _taken_axis(op, wiring)
        if axis is not None:
            taken.setdefault((wiring.flowing(op)[0], axis), []).append(op)
    for (value, axis), parts in taken.items():
        if _is_one_of_several(value, wiring.graph) or is_dequantized(value, wiring.graph):
            continue
        sizes = [_taken_size(op, axis, wiring) for op in parts]
        if len(parts) > 1 and sum(sizes) == (wiring.graph.values[value].shape or ())[axis]:
            yield tuple(op.id for op in parts)


def _is_one_of_several(value: int, graph: Graph) -> bool:
    """Whether the op that makes ``value`` makes others: ONNX Runtime takes none of them apart."""
    producer = graph.values[value].producer
    return producer is not None and len(graph.ops[producer].results) > 1


def _taken_axis(op: Op, wiring: _Wiring) -> int | None:
    """The axis along which ``op`` takes a part, where shapes tell that it takes one."""
    if op.domain or op.op_type not in PARTS or len(wiring.flowing(op)) != 1 or op.results[0] in wiring.returned:
        return None
    whole, part = (wiring.graph.values[value].shape or () for value in (wiring.flowing(op)[0], op.results[0]))
    if op.op_type == "Gather":
        axis = op.attributes.get("axis", 0)
        assert isinstance(axis, int)
        one = wiring.constants(op) == (1,)
        return axis % len(whole) if one and whole else None
    if not _is_dense(op, wiring.graph):
        return None
    differing = [axis for axis, (size, left) in enumerate(zip(whole, part, strict=False)) if size != left]
    return differing[0] if len(differing) == 1 else None


def _is_dense(part: Op, graph: Graph) -> bool:
    """Whether a Slice takes every place between its ends."""
    steps = part.inputs[4] if len(part.inputs) > 4 else None
    content = None if steps is None else graph.values[steps].content
    return content is None or set(content) == {1}


def _taken_size(op: Op, axis: int, wiring: _Wiring) -> int:
    shape = wiring.graph.values[op.results[0]].shape or ()
    return 1 if op.op_type == "Gather" else shape[axis] or 0


def head_of(members: tuple[Op, ...]) -> Op | None:
    """The op whose kernel computes all of ``members``: a convolution, or the only one."""
    return members[0] if len(members) == 1 or members[0].op_type == "Conv" else None
