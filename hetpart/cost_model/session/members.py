"""What the ops that share a kernel make of it: which compute, which end it, and the views around them."""

from __future__ import annotations

from math import prod

from hetpart.cost_model.session.forms import plain_made
from hetpart.cost_model.session.merge import PARTS
from hetpart.cost_model.session.reuse import Form
from hetpart.cost_model.sums import MATRIX
from hetpart.graph.ir import Graph, Op

GELUS = frozenset({"Erf", "Gelu", "Tanh"})
"""What a Gelu is written with, if it is written out."""


def computing(members: tuple[Op, ...]) -> tuple[Op, ...]:
    """``members`` without the Identity behind them, which only says what their result is called."""
    return members[:-1] if len(members) > 1 and members[-1].op_type == "Identity" else members


def ends(members: tuple[Op, ...]) -> tuple[Op, ...]:
    """The ops whose results a kernel writes: the last, but all parts that a Split takes."""
    return members if all(op.op_type in PARTS for op in members) else members[-1:]


def views(computing: tuple[Op, ...], graph: Graph) -> int:
    """Reshapes around a product that becomes one of matrices, and Squeezes behind a Split."""
    made = graph.values[computing[-1].results[0]]
    if _is_biased(computing) and made.shape is not None and len(made.shape) != MATRIX:
        return len(("before", "behind"))
    first = graph.values[computing[0].uses[0]].shape if computing[0].uses else None
    if len(ends(computing)) == 1 or first is None:
        return 0
    return sum(len(graph.values[op.results[0]].shape or ()) != len(first) for op in computing)


def adds_before_gelu(members: tuple[Op, ...]) -> bool:
    """Whether they are a Gelu that adds a vector to what it is given: its kernel writes the sum down."""
    types = {op.op_type for op in members}
    return len(members) > 1 and members[0].op_type == "Add" and not types.isdisjoint(GELUS)


def _is_biased(members: tuple[Op, ...]) -> bool:
    return members[0].op_type == "MatMul" and any(op.op_type == "Add" for op in members)


def product_form(members: tuple[Op, ...], graph: Graph) -> Form | None:
    """A matrix product with a bias is computed with all leading dimensions as one."""
    form = plain_made(graph.values[members[-1].results[0]]).form
    return (prod(form[:-2]), *form[-2:]) if _is_biased(members) and form is not None and len(form) > 1 else None
