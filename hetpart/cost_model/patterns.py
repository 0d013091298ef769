"""Formulas that ONNX Runtime runs as one kernel: Gelu, normalizations and products of integers, written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hetpart.cost_model.formula_match import Call, Match, formula, matched
from hetpart.cost_model.sums import is_row_sum, is_skip
from hetpart.cost_model.turning import turned
from hetpart.cost_model.wiring import Wiring, is_op
from hetpart.graph.ir import Op

_Rule = Callable[[Match, Wiring], bool]
_SumRule = Callable[[Op, Wiring], bool]


@dataclass(frozen=True, slots=True)
class Fused:
    """Ops that run as one kernel; all but the last feed each other alone."""

    members: frozenset[int]
    kernel: str
    """Its type."""

    @property
    def last(self) -> int:
        return max(self.members)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A formula and the kernel that computes it."""

    kernel: str
    call: Call
    where: _Rule
    behind_sum: str = ""
    """The kernel that takes the sum over that makes ``x``; none does where it is empty."""
    sum_rule: _SumRule = is_skip


def fused_formulas(wiring: Wiring) -> Iterator[Fused]:
    """Every formula of the table in the graph; an op is in one of them at most."""
    taken: set[int] = set()
    waiting = [_integer_product(op, wiring) for op in wiring.simple.ops if is_op(op, "MatMulInteger")]
    yield from (fused for fused in waiting if fused is not None)
    likely = [op for op in wiring.simple.ops if op.op_type in _ENDS]
    for patterns in _BY_PRECEDENCE:
        for op in likely:
            rows = patterns.get(op.op_type, ()) if not op.domain and op.id not in taken else ()
            fused = next((f for row in rows if (f := _found(row, op, wiring)) and taken.isdisjoint(f.members)), None)
            if fused is not None:
                taken |= fused.members
                yield fused


def _found(pattern: Pattern, last: Op, wiring: Wiring) -> Fused | None:
    match = matched(pattern.call, last.results[0], wiring)
    if match is None or not is_closed(match.ops, wiring) or not pattern.where(match, wiring):
        return None
    add = wiring.producer(match.value("x"))
    if pattern.behind_sum and add is not None and is_op(add, "Add") and pattern.sum_rule(add, wiring):
        with_sum = match.ops | {add.id}
        if is_closed(with_sum, wiring):
            return Fused(with_sum, pattern.behind_sum)
    return Fused(match.ops, pattern.kernel)


def is_closed(members: frozenset[int], wiring: Wiring) -> bool:
    """Whether every value that members make, but the last one's, is used by members alone."""
    ops, last = wiring.graph.ops, max(members)
    inner = [v for member in members if member != last for v in ops[member].results]
    return all(v not in wiring.returned and members.issuperset(wiring.consumers.get(v, ())) for v in inner)


def _anywhere(_: Match, __: Wiring) -> bool:
    return True


def _within(match: Match, wiring: Wiring) -> bool:
    """Such a formula stays where its result leaves the session."""
    return not wiring.is_returned(wiring.graph.ops[max(match.ops)])


def _along_last(match: Match, wiring: Wiring) -> bool:
    """Whether it is the last axis whose mean is taken."""
    means = (wiring.graph.ops[op] for op in match.ops if wiring.graph.ops[op].op_type == "ReduceMean")
    return all(_is_last(op, wiring) for op in means)


def _is_last(mean: Op, wiring: Wiring) -> bool:
    whole, made = (wiring.graph.values[v].shape for v in (mean.uses[0], mean.results[0]))
    if whole is None or made is None or len(made) != len(whole):
        return False
    axes = mean.attributes.get("axes")
    given = wiring.operands(mean)[1] if len(mean.inputs) > 1 else None
    axes = given.content if given is not None else axes
    last = (-1, len(whole) - 1)
    return len(axes) == 1 and axes[0] in last if isinstance(axes, tuple) else made[:-1] == whole[:-1] and made[-1] == 1


def _turns_operand(match: Match, wiring: Wiring) -> bool:
    """As attention is written over heads that were put first: with the Transpose before it, it is one of four axes."""
    turn = turned(wiring.graph.ops[max(match.ops)], wiring)
    return turn is not None and turn.whole


def _integer_product(product: Op, wiring: Wiring) -> Fused | None:
    """A product of integers that is scaled to floats behind it, and where that is for it alone, quantized before it."""
    cast = _next(product, wiring, "Cast")
    scaled = _next(cast, wiring, "Mul")
    if cast is None or scaled is None:
        return None
    scale = wiring.producer(next(iter(wiring.others(scaled, cast.results[0])), None))
    if scale is None or not is_op(scale, "Mul"):
        return None
    bias = _next(scaled, wiring, "Add")
    behind = (bias,) if bias is not None and _has_constant(bias, wiring) else ()
    members = frozenset(op.id for op in (product, cast, scale, scaled, *behind))
    quantizer = wiring.producer(product.inputs[0])
    whole = members | {quantizer.id} if quantizer is not None and is_op(quantizer, "DynamicQuantizeLinear") else members
    if len(whole) > len(members) and is_closed(whole, wiring):
        return Fused(whole, "DynamicQuantizeMatMul")
    return Fused(members, "MatMulIntegerToFloat") if is_closed(members, wiring) else None


def _next(op: Op | None, wiring: Wiring, *op_types: str) -> Op | None:
    """The sole consumer of what ``op`` makes, if it is of one of these types."""
    consumer = None if op is None else wiring.sole_consumer(op)
    return consumer if is_op(consumer, *op_types) else None


def _has_constant(op: Op, wiring: Wiring) -> bool:
    return any(v is not None and wiring.graph.values[v].is_constant for v in op.inputs)


_CENTRED = "Sub(x, ReduceMean(x))"
_NORMALIZED = f"Div({_CENTRED}, Sqrt(Add(ReduceMean(Pow({_CENTRED}, 2)), scalar)))"
_ROOT = "Sqrt(Add(ReduceMean(Pow(x, 2)), scalar))"
_ERF = "Add(Erf(Div(x, 1.4142135)), 1)"
_CUBIC = "Mul(Add(x, Mul(Pow(x, 3), 0.044715)), 0.7978846)"
_FACTORED = "Mul(Mul(x, 0.7978846), Add(Mul(Mul(x, 0.044715), x), 1))"


def _rows(
    kernel: str, where: _Rule, *texts: str, behind_sum: str = "", sum_rule: Callable[[Op, Wiring], bool] = is_skip
):
    return tuple(Pattern(kernel, formula(text), where, behind_sum, sum_rule) for text in texts)


PATTERNS: tuple[Pattern, ...] = (
    *_rows(
        "Gelu", _anywhere,
        f"Mul(Mul(x, {_ERF}), 0.5)", f"Mul(Mul(x, 0.5), {_ERF})",
        behind_sum="BiasGelu", sum_rule=is_row_sum,
    ),
    *_rows(
        "LayerNormalization", _along_last,
        f"Add(Mul({_NORMALIZED}, row), row_b)",
        behind_sum="SkipLayerNormalization",
    ),
    *_rows(
        "SimplifiedLayerNormalization", _along_last,
        f"Mul(Div(x, {_ROOT}), row)", f"Mul(Mul(x, Div(1, {_ROOT})), row)",
        f"Mul(Cast(Div(x, {_ROOT})), row)",
    ),
    *_rows(
        "FastGelu", _within,
        f"Mul(Mul(x, 0.5), Add(Tanh({_CUBIC}), 1))", f"Mul(Mul(x, 0.5), Add(Tanh({_FACTORED}), 1))",
        behind_sum="FastGelu", sum_rule=is_row_sum,
    ),
    *_rows("Transpose", _turns_operand, "Reshape(Transpose(Reshape(Transpose(x))))"),
    *_rows("QuickGelu", _anywhere, "Mul(x, Sigmoid(Mul(x, scalar)))", "Mul(x, Sigmoid(x))"),
)  # fmt: skip
"""What is found first takes its ops: ONNX Runtime looks for one kernel after the other."""


def _by_precedence() -> tuple[dict[str, tuple[Pattern, ...]], ...]:
    """The rows of each kernel by the type of the last op."""
    found: dict[str, dict[str, tuple[Pattern, ...]]] = {}
    for pattern in PATTERNS:
        rows = found.setdefault(pattern.kernel, {})
        rows[pattern.call.op_type] = (*rows.get(pattern.call.op_type, ()), pattern)
    return tuple(found.values())


_BY_PRECEDENCE = _by_precedence()
_ENDS = frozenset(op_type for rows in _BY_PRECEDENCE for op_type in rows)
