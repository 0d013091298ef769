"""What ONNX Runtime's transpose optimiser makes of a session.

It goes through the ops in order. Where a Transpose makes an input, it is pushed behind the op if that takes more axes
of Transposes off the inputs than it puts on others, and on the outputs, unless those lead to another Transpose. One
that meets another joins it, or both go.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from hetpart.cost_model.session.rewired.biases import dequantize, quantized_products
from hetpart.cost_model.session.rewired.net import Net, is_weight
from hetpart.cost_model.session.rewired.orders import Order, composed, inverse, written_order
from hetpart.cost_model.session.rewired.passages import PASSAGES, Passage, passage_of
from hetpart.cost_model.session.rewired.unshared import shares_any, unshare
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Graph, Op

MOST_ROUNDS = 10
"""How often the optimiser runs at most."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """A session whose Transposes stand where they are run."""

    graph: Graph
    """Its ops alone. Values of the model keep their ids; those that are new come behind."""
    keys: tuple[int, ...]
    """Of each op, its id in the model, or a number above all ids where it was put in."""


def pushed(
    graph: Graph, simple: Simplified, returned: frozenset[int], is_absorbed: Callable[[Op], bool]
) -> Pushed | None:
    """The session of ``simple`` behind the optimiser; ``None`` where that changes nothing.

    Args:
        graph: What the ops are of.
        simple: The ops that are left of the session.
        returned: Values that leave it.
        is_absorbed: Whether the kernel of the one op behind computes an op on the way.
    """
    products = quantized_products(graph, simple, returned, is_absorbed)
    shared, turned = shares_any(simple), _is_likely(simple)
    if not (products or shared or turned):
        return None
    net = Net(graph, simple, returned)
    changed = shared and unshare(net)
    changed |= bool(products) and dequantize(net, products)
    if turned:
        changed |= _round(net) and _further_rounds(net)
    if not changed:
        return None
    return Pushed(*net.graph(graph.name, graph))


def _further_rounds(net: Net) -> bool:
    """After a first one that pushed some."""
    for _ in range(MOST_ROUNDS - 1):
        if not _round(net):
            break
    return True


def _is_likely(simple: Simplified) -> bool:
    """Whether some op that could let a Transpose through reads one."""
    turned = {op.results[0] for op in simple.ops if _is_transpose(op)}
    turned |= {value for value in (simple.same if turned else ()) if simple.value(value) in turned}
    return bool(turned) and any(
        op.op_type in PASSAGES and not op.domain and not turned.isdisjoint(op.uses) for op in simple.ops
    )


def _is_transpose(op: Op) -> bool:
    return op.op_type == "Transpose" and not op.domain


def _round(net: Net) -> bool:
    """Whether anything was pushed."""
    net.turned_back.clear()
    towards = _leading_to_transposes(net)
    if not any(_may_push(net, key, towards) for key in _behind_transposes(net)):
        return False
    changed = False
    for key, _ in list(net.in_order()):
        op = net.ops.get(key)
        turns = () if op is None else [(p, order) for p, v in enumerate(op.inputs) if (order := net.order_of(v))]
        changed |= any(_pushes(net, key, position, order, towards) for position, order in turns)
    return changed


def _transposes(net: Net) -> list[Op]:
    return [op for op in net.ops.values() if _is_transpose(op)]


def _behind_transposes(net: Net) -> list[int]:
    """Keys of the ops that read what a Transpose makes."""
    return [key for op in _transposes(net) for key in net.readers(op.results[0])]


def _may_push(net: Net, key: int, towards: AbstractSet[int]) -> bool:
    """Whether it pays to push some Transpose before the op behind it, if the op lets it through."""
    op = net.ops[key]
    turns = [(p, order) for p, v in enumerate(op.inputs) if (order := net.order_of(v))]
    passage = passage_of(op)
    if _is_transpose(op) or passage is None:
        return _is_transpose(op) and bool(turns)
    if passage.pays:
        return any(p in passage.inputs(op) and passage.rule(op, order, net) is not None for p, order in turns)
    return any(p in passage.inputs(op) and _pays(net, op, passage, order, towards) for p, order in turns)


def _leading_to_transposes(net: Net) -> set[int]:
    """Values behind which, past ops that let it through, a Transpose stands."""
    waiting = [value for op in _transposes(net) for value in op.uses]
    found: set[int] = set()
    while waiting:
        value = waiting.pop()
        maker = None if value in found else net.maker(value)
        found.add(value)
        if maker is not None:
            waiting += _turned_with(net.ops[maker])
    return found


def _turned_with(op: Op) -> list[int]:
    """What is turned before ``op`` where what it makes is turned."""
    passage = None if _is_transpose(op) else passage_of(op)
    reads = [op.inputs[i] for i in passage.inputs(op)] if passage is not None and passage.turns else []
    return [value for value in reads if value is not None]


def _pushes(net: Net, key: int, position: int, order: Order, towards: AbstractSet[int]) -> bool:
    """Push the Transpose before an input behind the op, where that pays; whether it did."""
    op = net.ops[key]
    if _is_transpose(op):
        return _joins(net, key, order)
    passage = passage_of(op)
    if passage is None or position not in passage.inputs(op) or not _pays(net, op, passage, order, towards):
        return False
    passed = passage.rule(op, order, net)
    if passed is None:
        return False
    net.set(key, passed.op)
    for place in passage.inputs(op):
        _turn_input(net, key, place, order)
    if passed.behind and passed.behind != tuple(sorted(passed.behind)):
        net.turned_output(key, passed.behind)
    return True


def _pays(net: Net, op: Op, passage: Passage, order: Order, towards: AbstractSet[int]) -> bool:
    if passage.pays:
        return True
    cost = sum(_cost(net, op.inputs[place], order) for place in passage.inputs(op))
    if cost < 0 and passage.turns and towards.isdisjoint(op.results):
        cost += max(map(net.rank, op.results))
    return cost < 0


def _cost(net: Net, value: int | None, order: Order) -> int:
    """Axes that are turned more when ``value`` is read as it was before a Transpose of ``order``."""
    weight = value is None or is_weight(net.values[value])
    if value is None or (weight and value not in net.turned_back):
        return 0
    found = net.turned_back[value] if weight else net.order_of(value)
    if not found:
        return net.rank(value)
    free = not net.is_open(value) and all(passage_of(net.ops[key]) for key in net.readers(value))
    return -net.rank(value) if found == order and free else 0


def _turn_input(net: Net, key: int, place: int, order: Order) -> None:
    """Have the op read what a Transpose of ``order`` would make its input of."""
    op, value = net.ops[key], net.ops[key].inputs[place]
    if value is None or net.values[value].shape == ():  # a scalar is the same in any order, and left as it is
        return
    lead = len(order) - len(net.values[value].shape or order)
    if is_weight(net.values[value]):
        _turn_back(net, key, value, () if lead > 0 else order)
    found = _source(net, _led(net, value, lead), order)
    net.set(key, replace(op, inputs=(*op.inputs[:place], found, *op.inputs[place + 1 :])))
    before = net.maker(value)
    if before is not None and net.order_of(value):
        net.drop_unread(before)


def _turn_back(net: Net, key: int, weight: int, order: Order) -> None:
    """Have others than the op at ``key`` read a weight, which is turned where it lies, behind what turns it back."""
    shared = not net.is_open(weight) and any(reader != key for reader in net.readers(weight))
    if shared and net.values[weight].numel > 1:
        net.turned_back.setdefault(weight, order)


def _led(net: Net, value: int, lead: int) -> int:
    """``value`` with ``lead`` axes in front."""
    if lead <= 0:
        return value
    made = net.value_like(value, lead=lead)
    if not is_weight(net.values[value]):
        net.add("Unsqueeze", value, made, axes=tuple(range(lead)))
    return made


def _source(net: Net, value: int, order: Order) -> int:
    back, found = inverse(order), net.order_of(value)
    if is_weight(net.values[value]):
        return value if net.values[value].numel == 1 else net.value_like(value, back)
    if found:
        (source,) = net.ops[_key(net, value)].uses
        return source if found == order else _turned(net, source, composed(found, back), value, back)
    same = (net.ops[key] for key in net.readers(value))
    there = next((op for op in same if _is_transpose(op) and written_order(op) == back), None)
    return _turned(net, value, back, value, back) if there is None else there.results[0]


def _key(net: Net, value: int) -> int:
    key = net.maker(value)
    assert key is not None
    return key


def _turned(net: Net, source: int, order: Order, like: int, back: Order) -> int:
    """What a new Transpose makes of ``source``: ``like`` behind ``back``."""
    made = net.value_like(like, back)
    net.add("Transpose", source, made, perm=order)
    return made


def _joins(net: Net, key: int, order: Order) -> bool:
    """Have one Transpose do what two do, or none where they undo each other."""
    op = net.ops[key]
    (value,), (made,) = op.uses, op.results
    first, own = _key(net, value), written_order(op)
    (source,) = net.ops[first].uses
    if len(own) != len(order):
        return False
    if own != inverse(order):
        net.set(key, replace(op, inputs=(source,), attributes={**op.attributes, "perm": composed(order, own)}))
    elif not net.is_open(made):
        net.replace_read(made, source)
        net.drop(key)
    else:
        _returned(net, key, source, made)
    net.drop_unread(first)
    return True


def _returned(net: Net, key: int, source: int, made: int) -> None:
    """Have what makes ``source`` make what the caller gets; a copy where the caller has that as well."""
    maker = net.maker(source)
    if maker is None or net.is_open(source):
        net.set(key, replace(net.ops[key], op_type="Identity", inputs=(source,), attributes={}))
        return
    net.drop(key)
    op = net.ops[maker]
    net.set(maker, replace(op, outputs=tuple([made if v == source else v for v in op.outputs])))
    net.replace_read(source, made)
