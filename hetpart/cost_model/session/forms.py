"""The forms in which kernels make a value: as the model has it, in float32 for half precision, channels in blocks."""

from __future__ import annotations

from dataclasses import replace

from hetpart.cost_model.session.layout import blocked_form, blocked_nbytes
from hetpart.cost_model.session.reuse import Made
from hetpart.graph.ir import DTYPE_BITS, Value


def plain_made(value: Value) -> Made:
    """``value`` as the model has it."""
    form = (*[size or 0 for size in value.shape or ()], DTYPE_BITS[value.dtype]) if value.is_static else None
    return Made(value.id, value.nbytes, form)


def wide_made(made: Made) -> Made:
    """A value of half precision in float32."""
    form = None if made.form is None else (*made.form[:-1], 2 * made.form[-1])
    return replace(made, value=-1 - made.value, nbytes=2 * made.nbytes, form=form)


def last_made(value: Value) -> Made:
    """``value`` with its channels last."""
    made = plain_made(value)
    form = None if made.form is None else (made.form[0], *made.form[2:-1], made.form[1], made.form[-1])
    return replace(made, value=-1 - value.id, form=form)


def blocked_made(value: Value, over: tuple[int, ...] = ()) -> Made:
    """``value`` with its channels in blocks, which may lie ``over`` others."""
    return Made(-1 - value.id, blocked_nbytes(value), blocked_form(value), over=over)
