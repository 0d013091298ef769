"""Which ops of a session run as one kernel, for what its memory holds: inner values of a kernel are never written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hetpart.cost_model.fusion import CONV_ACTIVATIONS, Fusions
from hetpart.cost_model.session.simplify import Simplified
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

SEPARATE = frozenset({"Gelu"})
"""A product takes its bias over first, so these find none to share a kernel with."""
FOLDED = frozenset({"Add", "BatchNormalization", "Mul"})
"""With constants alone beside the output of a convolution, they go into its weights."""
SUMS = frozenset({"Add", "Sum"})
ACTIVATIONS = frozenset({"Relu", *CONV_ACTIVATIONS})


def merged(
    graph: Graph, simple: Simplified, fusions: Fusions, provider: Provider, returned: frozenset[int]
) -> Iterator[tuple[Op, ...]]:
    """Ops that share a kernel, in the order of the last of each; a convolution stands first among its own."""
    wiring = _Wiring.of(graph, simple, returned)
    root = _roots(wiring, fusions, provider)
    members: dict[int, list[Op]] = {}
    for op in simple.ops:
        members.setdefault(root[op.id], []).append(op)
    for last in sorted(members):
        yield tuple(sorted(members[last], key=lambda op: (op.op_type != "Conv", op.id)))


def _roots(wiring: _Wiring, fusions: Fusions, provider: Provider) -> dict[int, int]:
    """For every op, the last one that it shares a kernel with."""
    root = {op.id: op.id for op in wiring.simple.ops}
    for op in wiring.simple.ops:
        if op.op_type == "Conv" and not op.domain:
            chain = _convolution(op, wiring)
            root.update(dict.fromkeys(chain, chain[-1]))
    for op in reversed(wiring.simple.ops):
        users = wiring.users(op)
        if op.op_type != "Conv" and root[op.id] == op.id and users and _joins(op, users, wiring, fusions, provider):
            root[op.id] = max(root[user] for user in users)
    return root


def _joins(op: Op, users: tuple[int, ...], wiring: _Wiring, fusions: Fusions, provider: Provider) -> bool:
    """Whether what ``op`` makes is used by one kernel alone, which takes it over."""
    ops = [wiring.graph.ops[user] for user in users]
    if any(user.op_type in SEPARATE for user in ops) or any(user.op_type in ACTIVATIONS for user in ops):
        return provider in fusions.absorbed[op.id] and op.op_type not in FOLDED and len(ops) == 1
    if provider in fusions.absorbed[op.id]:
        return True
    rule = RULES.get((op.op_type, ops[0].op_type))
    return rule is not None and len(ops) == 1 and not op.domain and rule(op, ops[0], wiring)


@dataclass(frozen=True, slots=True)
class _Wiring:
    graph: Graph
    simple: Simplified
    consumers: Mapping[int, tuple[int, ...]]
    returned: frozenset[int]

    @classmethod
    def of(cls, graph: Graph, simple: Simplified, returned: frozenset[int]) -> _Wiring:
        found: dict[int, list[int]] = {}
        for op in simple.ops:
            for value in dict.fromkeys(simple.value(v) for v in op.uses):
                found.setdefault(value, []).append(op.id)
        return cls(graph, simple, {value: tuple(ops) for value, ops in found.items()}, returned)

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


def _convolution(conv: Op, wiring: _Wiring) -> tuple[int, ...]:
    """The convolution and what its kernel computes on the way out."""
    channels = ((wiring.graph.values[conv.results[0]].shape or (0, 0)) + (0, 0))[1]
    chain, user = [conv.id], wiring.sole_user(conv)
    while user is not None and _folds(user, channels, wiring):
        chain.append(user.id)
        user = wiring.sole_user(user)
    if user is not None and user.op_type in SUMS and _is_residual(chain[-1], user, wiring):
        chain.append(user.id)
        user = wiring.sole_user(user)
    if user is not None and user.op_type in ACTIVATIONS:
        chain.append(user.id)
    return tuple(chain)


def _folds(user: Op, channels: int | None, wiring: _Wiring) -> bool:
    alone = len(wiring.flowing(user)) == 1
    return user.op_type in FOLDED and alone and all(size in (1, channels) for size in wiring.constants(user))


def _is_residual(before: int, add: Op, wiring: _Wiring) -> bool:
    """The kernel of a convolution adds its output to a value that is there by then, in that value's place."""
    flowing = wiring.flowing(add)
    made = wiring.graph.ops[before].results[0]
    values = [wiring.graph.values[v] for v in flowing]
    there = all(value.id == made or (value.producer or 0) < before for value in values)
    return len(flowing) == 2 and there and len({value.shape for value in values}) == 1


def _scaled(_: Op, scale: Op, wiring: _Wiring) -> bool:
    return wiring.constants(scale) == (1,)


def _scaling(scale: Op, _: Op, wiring: _Wiring) -> bool:
    return wiring.constants(scale) == (1,)


def _any(_: Op, __: Op, ___: _Wiring) -> bool:
    return True


def _swaps_last(transpose: Op, _: Op, __: _Wiring) -> bool:
    axes = transpose.attributes.get("perm", ())
    rank = len(axes) if isinstance(axes, tuple) else 0
    return rank > 1 and axes == (*range(rank - 2), rank - 1, rank - 2)


_Rule = Callable[[Op, Op, _Wiring], bool]
RULES: Mapping[tuple[str, str], _Rule] = {
    ("Transpose", "Transpose"): _any,
    ("Transpose", "MatMul"): _swaps_last,
    ("MatMul", "Mul"): _scaled,
    ("MatMul", "Div"): _scaled,
    ("Mul", "MatMul"): _scaling,
    ("Div", "MatMul"): _scaling,
}
"""Pairs of producer and sole consumer that share a kernel beside those that ``fusion`` prices."""
