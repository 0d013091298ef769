"""Ops of a session while they are rewired: who makes a value, who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hetpart.cost_model.session.rewired.orders import Order, inverse, reordered, written_order
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import AS_USUAL, Graph, Op, Value, ValueRole


class Net:
    """The ops that are left of a session, by a key that is the op's id, or above all ids where it was put in."""

    def __init__(self, graph: Graph, simple: Simplified, returned: frozenset[int]) -> None:
        self.values = list(graph.values)
        self.ops: dict[int, Op] = {}
        self.returned = returned
        self.captured = frozenset(simple.value(v) for op in simple.ops for v in op.captures)
        self.turned_back: dict[int, Order] = {}
        """Weights that were turned for one op, and by what Transpose the others read them as they were; none where a
        Squeeze is behind that. It vanishes where it is left, but makes it cheaper to push another."""
        self._next = len(graph.ops)
        self._maker: dict[int, int] = {}
        self._uses: dict[int, tuple[int, ...]] = {}
        self._readers: dict[int, dict[int, None]] = {}
        renamed = simple.same.keys()
        for op in simple.ops:
            self.set(op.id, op if renamed.isdisjoint(op.uses) else _as_made(op, simple))

    def set(self, key: int, op: Op) -> None:
        """Have ``op`` stand at ``key``."""
        self._forget(key)
        self.ops[key] = op
        self._uses[key] = uses = op.uses
        for value in uses:
            self._readers.setdefault(value, {})[key] = None
        for value in op.outputs:
            if value is not None:
                self._maker[value] = key

    def _forget(self, key: int) -> None:
        old = self.ops.pop(key, None)
        if old is None:
            return
        for value in self._uses.pop(key):
            self._readers[value].pop(key, None)
        for value in old.results:
            if self._maker.get(value) == key:
                del self._maker[value]

    def drop_unread(self, key: int) -> None:
        """Take the op out where nobody reads what it makes."""
        op = self.ops.get(key)
        if op is not None and not any(self.is_open(v) or self.readers(v) for v in op.results):
            self._forget(key)

    def drop(self, key: int) -> None:
        self._forget(key)

    def add(self, op_type: str, source: int, made: int, **attributes: Order) -> int:
        """Put in an op of one input; its key."""
        version = next(iter(self.ops.values())).version
        return self.insert(
            Op(-1, op_type, "", op_type, version, (source,), (made,), (), attributes, "", usage=AS_USUAL)
        )

    def insert(self, op: Op) -> int:
        """Put in ``op``; its key."""
        self._next += 1
        self.set(self._next - 1, op)
        return self._next - 1

    def value_like(self, value: int, order: Order = (), lead: int = 0) -> int:
        """A new value: ``value`` behind a Transpose, or with ``lead`` axes of one element in front."""
        old = self.values[value]
        shape = reordered(old.shape, order) if order else old.shape
        shape = shape if shape is None else (*(1,) * lead, *shape)
        content = old.content if old.numel == 1 else None
        self.values.append(replace(old, id=len(self.values), shape=shape, content=content, same_as=None))
        return len(self.values) - 1

    def numbers_like(self, value: int, content: Iterable[float]) -> int:
        """A new constant of the kind of ``value``."""
        old = self.values[value]
        self.values.append(replace(old, id=len(self.values), content=tuple(content), same_as=None))
        return len(self.values) - 1

    def maker(self, value: int | None) -> int | None:
        return None if value is None else self._maker.get(value)

    def order_of(self, value: int | None) -> Order:
        """How a Transpose turns what is ``value`` behind it; none where no Transpose makes it."""
        key = self.maker(value)
        op = None if key is None else self.ops[key]
        return written_order(op) if op is not None and op.op_type == "Transpose" and not op.domain else ()

    def readers(self, value: int) -> tuple[int, ...]:
        return tuple(self._readers.get(value, ()))

    def is_open(self, value: int) -> bool:
        """Whether the caller gets it, or a body reads it: then not all who use it are ops that could read another."""
        return value in self.returned or value in self.captured

    def replace_read(self, before: int, after: int) -> None:
        """Have all ops that read ``before`` read ``after``."""
        for key in self.readers(before):
            op = self.ops[key]
            self.set(key, replace(op, inputs=tuple([after if v == before else v for v in op.inputs])))

    def rank(self, value: int) -> int:
        """Axes of more than one element, by which ONNX Runtime weighs a Transpose."""
        shape = self.values[value].shape
        return UNKNOWN_RANK if shape is None else sum(size != 1 for size in shape)

    def turned_output(self, key: int, order: Order) -> None:
        """Have the op make its results in another order, and Transposes of ``order`` behind it bring them back."""
        op = self.ops[key]
        moved = {value: self.value_like(value, inverse(order)) for value in op.results}
        self.set(key, replace(op, outputs=tuple([None if v is None else moved[v] for v in op.outputs])))
        for value, before in moved.items():
            self.add("Transpose", before, value, perm=order)

    def in_order(self) -> Iterator[tuple[int, Op]]:
        """Every op behind those it reads from: depth first from the ends, the last first, as ONNX Runtime does."""
        before = {key: self._before(key) for key in self.ops}
        inner = {key for keys in before.values() for key in keys}
        stack = [(key, False) for key in sorted(self.ops) if key not in inner]
        seen: set[int] = set()
        while stack:
            key, leaving = stack.pop()
            if leaving:
                yield key, self.ops[key]
            elif key not in seen:
                seen.add(key)
                stack.append((key, True))
                stack += [(maker, False) for maker in before[key] if maker not in seen]

    def _before(self, key: int) -> list[int]:
        """Keys of the ops that one reads from."""
        makers = self._maker
        return sorted({makers[value] for value in self._uses[key] if value in makers})

    def graph(self, name: str, like: Graph) -> tuple[Graph, tuple[int, ...]]:
        """The ops as a graph of their own, and the key of each.

        A value that none of them touches stands there as it was: only those that are used know who makes them.
        """
        listed = list(self.in_order())
        number = {key: place for place, (key, _) in enumerate(listed)}
        for value in {*self._maker, *self.returned, *(v for uses in self._uses.values() for v in uses)}:
            maker = self._maker.get(value)
            self.values[value] = _made_by(self.values[value], None if maker is None else number[maker])
        ops = tuple([replace(op, id=number[key]) for key, op in listed])
        ends = tuple(sorted(self.returned))
        graph = replace(like, name=name, ops=ops, values=tuple(self.values), outputs=ends)
        return graph, tuple(key for key, _ in listed)


def _as_made(op: Op, simple: Simplified) -> Op:
    """``op`` reading what is made where it reads what stands for that."""
    inputs = tuple([None if v is None else simple.value(v) for v in op.inputs])
    return replace(op, inputs=inputs, captures=tuple(map(simple.value, op.captures)))


def _made_by(value: Value, maker: int | None) -> Value:
    return value if value.producer == maker else replace(value, producer=maker)


def is_weight(value: Value) -> bool:
    """Whether its elements can be turned once, when the session is made."""
    return value.role in (ValueRole.WEIGHT, ValueRole.DERIVED)


UNKNOWN_RANK = 5
"""What ONNX Runtime takes for the rank of what it does not know."""
