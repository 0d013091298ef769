"""Through which ops a Transpose is pushed: a table of what becomes of their attributes, and of the order behind them.

As ONNX Runtime's ``onnx_transpose_optimization.cc`` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hetpart.cost_model.session.rewired.net import Net, is_weight
from hetpart.cost_model.session.rewired.orders import Order, inverse, squeezed, unsqueezed
from hetpart.cost_model.turning import MATRIX, runs_apart, swaps_last
from hetpart.graph.ir import Op

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """An op behind which a Transpose is that stood before it."""

    op: Op
    behind: Order
    """Of the Transpose of what it makes; none where that needs none."""


_Rule = Callable[[Op, Order, Net], Passed | None]


@dataclass(frozen=True, slots=True)
class Passage:
    """A row: what an op is when its inputs are not turned; ``None`` where it cannot be."""

    rule: _Rule
    every_input: bool = False
    """Whether all inputs are turned, or the first alone."""
    turns: bool = True
    """Whether what it makes is turned."""
    pays: bool = False
    """Whether a Transpose is pushed behind it whatever that costs."""

    def inputs(self, op: Op) -> Sequence[int]:
        """Positions that are turned together."""
        return [i for i, v in enumerate(op.inputs) if v is not None] if self.every_input else (0,)


def passage_of(op: Op) -> Passage | None:
    """The row of ``op``."""
    return None if op.domain else PASSAGES.get(op.op_type)


def _plain(op: Op, order: Order, _: Net) -> Passed:
    return Passed(op, order)


def _stretched(op: Op, order: Order, net: Net) -> Passed | None:
    """Inputs of fewer axes are given more; none has more than the Transpose."""
    shapes = [net.values[v].shape for v in op.uses]
    return None if any(s is None or len(s) > len(order) for s in shapes) else Passed(op, order)


def _along_axis(default: int) -> _Rule:
    def rule(op: Op, order: Order, _: Net) -> Passed:
        return Passed(_with_axis(op, order, default), order)

    return rule


def _with_axis(op: Op, order: Order, default: int) -> Op:
    axis = op.attributes.get("axis", default)
    assert isinstance(axis, int)
    return replace(op, attributes={**op.attributes, "axis": order[axis % len(order)]})


FLATTENING = 13
"""Opset before which Softmax and its like took all axes from one on as one."""


def _softmax(op: Op, order: Order, net: Net) -> Passed | None:
    if op.version >= FLATTENING:
        return _along_axis(-1)(op, order, net)
    axis = op.attributes.get("axis", 1)
    first = axis % len(order) if isinstance(axis, int) else 0
    return Passed(op, order) if sorted(order[:first]) == [*range(first)] else None


def _reduced(op: Op, order: Order, net: Net) -> Passed | None:
    given = _axes(op, net)
    if given is None:
        return None
    kept = op.attributes.get("keepdims", 1)
    if not given:
        through = bool(op.attributes.get("noop_with_empty_axes", 0))
        return Passed(op, order if through or kept else ())
    gone = sorted(order[axis % len(order)] for axis in given)
    return Passed(_with_axes(op, gone, net), order if kept else squeezed(order, gone))


def _taken(op: Op, order: Order, net: Net) -> Passed | None:
    """One constant index, of no axes, takes an axis away; before others ONNX Runtime leaves the Transpose."""
    index = op.inputs[1]
    if index is None or net.values[index].shape != () or not is_weight(net.values[index]):
        return None
    changed = _with_axis(op, order, 0)
    axis = changed.attributes["axis"]
    assert isinstance(axis, int)
    return Passed(changed, squeezed(order, (axis,)))


def _extreme(op: Op, order: Order, _: Net) -> Passed:
    changed = _with_axis(op, order, 0)
    axis = changed.attributes["axis"]
    assert isinstance(axis, int)
    return Passed(changed, order if op.attributes.get("keepdims", 1) else squeezed(order, (axis,)))


def _squeezed(op: Op, order: Order, net: Net) -> Passed | None:
    given = _axes(op, net)
    if not given:
        return None
    gone = sorted(order[axis % len(order)] for axis in given)
    return Passed(_with_axes(op, gone, net), squeezed(order, gone))


def _unsqueezed(op: Op, order: Order, net: Net) -> Passed | None:
    given = _axes(op, net)
    if not given:
        return None
    return Passed(op, unsqueezed(order, [axis % (len(order) + len(given)) for axis in given]))


def _axes(op: Op, net: Net) -> Axes | None:
    """As the attribute or the second input has them; none where neither does, ``None`` where only a run tells."""
    written = op.attributes.get("axes")
    if isinstance(written, tuple):
        return tuple([int(axis) for axis in written])
    value = op.inputs[1] if len(op.inputs) > 1 else None
    content = None if value is None else net.values[value].content
    return () if value is None else None if content is None else tuple(map(int, content))


def _with_axes(op: Op, axes: Sequence[int], net: Net) -> Op:
    if "axes" in op.attributes:
        return replace(op, attributes={**op.attributes, "axes": tuple(axes)})
    return _with_numbers(op, 1, axes, net)


def _with_numbers(op: Op, position: int, content: Sequence[float], net: Net) -> Op:
    before = op.inputs[position]
    assert before is not None
    inputs = (*op.inputs[:position], net.numbers_like(before, content), *op.inputs[position + 1 :])
    return replace(op, inputs=inputs)


AXES_OF_SLICE, AXES_OF_PAD, PADS, REPEATS = 3, 3, 1, 1
"""Positions of inputs."""


def _sliced(op: Op, order: Order, net: Net) -> Passed | None:
    """Of a Slice without axes that are known shapes alone tell what it takes."""
    return _on_axes(op, order, AXES_OF_SLICE, net) or (
        Passed(op, order) if _content(op, AXES_OF_SLICE, net) == () else None
    )


def _on_axes(op: Op, order: Order, position: int, net: Net) -> Passed | None:
    axes = _content(op, position, net)
    if not axes:
        return None
    return Passed(_with_numbers(op, position, [order[int(axis) % len(order)] for axis in axes], net), order)


def _content(op: Op, position: int, net: Net) -> tuple[float, ...] | None:
    """Of an input; none where it is left out, ``None`` where only a run tells."""
    value = op.inputs[position] if position < len(op.inputs) else None
    return () if value is None else net.values[value].content


def _padded(op: Op, order: Order, net: Net) -> Passed | None:
    if _content(op, AXES_OF_PAD, net) != ():
        return _on_axes(op, order, AXES_OF_PAD, net)
    pads, count = _content(op, PADS, net), len(order)
    if not pads:
        return None
    moved = [pads[side * count + order.index(axis)] for side in (0, 1) for axis in range(count)]
    return Passed(_with_numbers(op, PADS, moved, net), order)


def _repeated(op: Op, order: Order, net: Net) -> Passed | None:
    repeats = _content(op, REPEATS, net)
    if not repeats:
        return None
    return Passed(_with_numbers(op, REPEATS, [repeats[order.index(axis)] for axis in range(len(order))], net), order)


def _told(op: Op, _: Order, __: Net) -> Passed:
    """Of what is not turned a Shape tells the same sizes, in another order."""
    return Passed(op, ())


def _split(op: Op, order: Order, net: Net) -> Passed | None:
    """A Reshape that takes axes apart, and does no more, is pushed through; one that joins some keeps what is before.

    Where batches were made one axis before the Transpose, the patterns of ``turning`` make one of all that is so.
    """
    before, after = (net.values[value].shape for value in (op.uses[0], op.results[0]))
    runs = () if len(after or ()) <= len(before or ()) else runs_apart(before, after)
    first = [sum(runs[:axis]) for axis in range(len(runs))]
    places = tuple([first[axis] + part for axis in inverse(order) for part in range(runs[axis])] if runs else ())
    if not runs or (swaps_last(places) and _has_joined_batches(op, net)):
        return None
    return Passed(op, inverse(places))


def _has_joined_batches(split: Op, net: Net) -> bool:
    transpose = net.maker(split.uses[0])
    flat = None if transpose is None else net.maker(net.ops[transpose].uses[0])
    if flat is None or net.ops[flat].op_type != "Reshape":
        return False
    apart, joined = (net.values[value].shape or () for value in (net.ops[flat].uses[0], net.ops[flat].results[0]))
    return apart[-MATRIX:] == joined[-MATRIX:]


def _never(_: Op, __: Order, ___: Net) -> None:
    """One Transpose joins another by itself."""


_ELEMENTWISE = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Celu", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Neg", "Not",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Tan", "Tanh", "ThresholdedRelu", "Clip", "CastLike",
)  # fmt: skip
_BROADCAST = (
    "Add", "And", "BitShift", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min",
    "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip
_REDUCING = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
PASSAGES: Mapping[str, Passage] = {
    **dict.fromkeys(_ELEMENTWISE, Passage(_plain)),
    **dict.fromkeys(_BROADCAST, Passage(_stretched, every_input=True)),
    **dict.fromkeys(_REDUCING, Passage(_reduced)),
    **dict.fromkeys(("ArgMax", "ArgMin"), Passage(_extreme)),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), Passage(_softmax)),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), Passage(_along_axis(1))),
    "Concat": Passage(_along_axis(0), every_input=True),
    "Gather": Passage(_taken),
    "Pad": Passage(_padded),
    "Reshape": Passage(_split, turns=False, pays=True),
    "Shape": Passage(_told, turns=False),
    "Slice": Passage(_sliced),
    "Split": Passage(_along_axis(0)),
    "Squeeze": Passage(_squeezed),
    "Tile": Passage(_repeated),
    "Transpose": Passage(_never),
    "Unsqueeze": Passage(_unsqueezed),
}
"""By type, of ``ai.onnx``. The row of a Transpose only says that it may be reached."""
