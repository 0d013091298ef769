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
FIRST, LAST, AXES, STEPS = 1, 2, 3, 4
"""Positions of inputs of a Slice; a Gather has its index where that has its first places."""
LISTED = 13
"""Opset of the Gathers and Slices that become Splits."""
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
    """Gathers and Slices that take a value apart along one axis, all of it and nothing twice: they are a Split.

    Where each part is quantized behind, each is a kernel of integers.
    """
    taken: dict[int, list[Op]] = {}
    for op in wiring.simple.ops:
        if op.op_type in PARTS and not op.domain and op.inputs[0] is not None:
            taken.setdefault(wiring.simple.value(op.inputs[0]), []).append(op)
    for value, parts in taken.items():
        left = len(parts) < 2 or any(provider in fusions.absorbed[op.id] for op in parts)
        if not left and _may_be_split(wiring.graph.values[value], wiring.graph) and _are_whole(parts, value, wiring):
            yield tuple(op.id for op in parts)


def _may_be_split(value: Value, graph: Graph) -> bool:
    """Whether ONNX Runtime looks at it: not at constants, at sizes, or at one of several results of an op."""
    maker = None if value.producer is None else graph.ops[value.producer]
    alone = maker is None or (len(maker.results) == 1 and maker.op_type != "Shape")
    return alone and not value.is_constant and not is_dequantized(value.id, graph)


def _are_whole(parts: list[Op], value: int, wiring: _Wiring) -> bool:
    """Whether ``parts`` take every place of one axis of ``value``, each once."""
    taken = [_taken(op, wiring.graph.values[value], wiring) for op in parts]
    axes = {axis for axis, _ in taken}
    if len(axes) != 1 or None in axes:
        return False
    (axis,) = axes
    size = (wiring.graph.values[value].shape or ())[axis or 0]
    return sorted(place for _, places in taken for place in places) == [*range(size or 0)]


def _taken(op: Op, whole: Value, wiring: _Wiring) -> tuple[int | None, range]:
    """The axis along which ``op`` takes a part, and the places of it; no axis where it is more than a run of one.

    Before ``LISTED`` ops of those types are other ones to ONNX Runtime.
    """
    shape = whole.shape or ()
    axis = op.attributes.get("axis", 0) if op.op_type == "Gather" else _number(op, AXES, wiring)
    first = _number(op, FIRST, wiring)
    if op.version < LISTED or not isinstance(axis, int) or first is None or not shape or shape[axis] is None:
        return None, range(0)
    places = range(shape[axis] or 0)
    if op.op_type == "Gather":
        return axis % len(shape), places[first:][:1]
    last, step = _number(op, LAST, wiring), _number(op, STEPS, wiring) if len(op.inputs) > STEPS else 1
    part = places[first:last] if step == 1 and last is not None else range(0)
    return (axis % len(shape) if part else None), part


def _number(op: Op, place: int, wiring: _Wiring) -> int | None:
    """The one number that an input is known to be; None where it is not known, or several."""
    value = op.inputs[place] if place < len(op.inputs) else None
    known = None if value is None else wiring.graph.values[wiring.simple.value(value)]
    told = known is not None and known.is_constant and known.dtype == "int64" and known.numel == 1
    return int(known.content[0]) if told and known is not None and known.content else None


def head_of(members: tuple[Op, ...]) -> Op | None:
    """The op whose kernel computes all of ``members``: a convolution, or the only one."""
    return members[0] if len(members) == 1 or members[0].op_type == "Conv" else None
