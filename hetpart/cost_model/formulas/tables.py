"""Tables of a training step: rows that a batch asks for are read and written, never a whole table."""

from __future__ import annotations

from math import exp

from hetpart.cost_model.formulas.gathering import gathered_bytes, gathered_rows
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    bytes_read,
    bytes_scattered,
    bytes_written,
    flops,
    no_arithmetic,
    spread_cycles,
)
from hetpart.cost_model.formulas.updates import PER_PARAMETER
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.ir import Value

LOOKUP, BAGS = "hetpart.lookup.default", "hetpart.lookup_bags.default"
ARRANGED, LENGTHS, SQUARE_NORM = (f"hetpart.{name}.default" for name in ("arranged", "lengths", "rows_square_norm"))
STATES = {"lazyadam": ("adam", 2), "sparseadagrad": ("adagrad", 1), "sparseftrl": ("ftrl", 2), "sparsesgd": ("sgd", 0)}
"""By optimizer of rows, the one of whole parameters that computes as much, and the states that it keeps."""
CHECKED = "hetpart.with_rows.default"
COLLECTED = "hetpart.collect_part.default"
"""Copies one part of a batch to its place among all."""
SORT_CYCLES = 60.0
"""Of each id, on all threads together: 6.0 ms for 624,000 of them on two cores at about 3 GHz."""


def bag_rows(o: Operands) -> int:
    """Bytes of the rows that bags are sums of."""
    width = (o.shape(0) or (1,))[-1]
    return o.numel(1) * width * max(1, o.nbytes(0) // max(1, o.numel(0)))


no_arithmetic((LOOKUP, ARRANGED, COLLECTED), CALL_DOMAIN)
bytes_read.add(lambda o: o.nbytes(1), (COLLECTED,), CALL_DOMAIN)
bytes_written.add(lambda o: o.nbytes(1), (COLLECTED,), CALL_DOMAIN)
bytes_read.add(gathered_bytes, (LOOKUP,), CALL_DOMAIN)
bytes_scattered.add(gathered_rows, (LOOKUP,), CALL_DOMAIN)
flops.add(lambda o: float(o.numel(1) * (o.shape(0) or (1,))[-1]), (BAGS,), CALL_DOMAIN)
bytes_read.add(lambda o: bag_rows(o) + o.input_bytes - o.nbytes(0), (BAGS,), CALL_DOMAIN)
bytes_scattered.add(bag_rows, (BAGS,), CALL_DOMAIN)
flops.add(lambda o: float(o.numel(0)), (LENGTHS,), CALL_DOMAIN)
flops.add(lambda o: 2.0 * sum(value.numel for value in _values(o)), (CHECKED,), CALL_DOMAIN)
flops.add(lambda o: 2.0 * sum(value.numel for value in _values(o)), (SQUARE_NORM,), CALL_DOMAIN)
spread_cycles.add(lambda o: SORT_CYCLES * o.output_numel(), (ARRANGED,), CALL_DOMAIN)


def _values(o: Operands) -> list[Value]:
    return [value for value in o.inputs if value is not None]


def _states(o: Operands) -> tuple[str, int]:
    return STATES[o.op.op_type.split(".")[1]]


def asked_ids(o: Operands) -> int:
    """The ids of a batch: what is before ``progress``, the one argument of its type, is their order."""
    places = [place for place, value in enumerate(o.inputs) if value is not None and value.dtype == "float64"]
    return o.numel(places[-1] - 1) if places else 0


def touched_rows(o: Operands) -> float:
    """The distinct rows of a batch, as many as uniform draws have on average: no other ids have more."""
    rows, ids = (o.shape(0) or (0,))[0], asked_ids(o)
    return rows * (1.0 - exp(-ids / rows)) if rows else 0.0


def touched_bytes(o: Operands) -> int:
    """Bytes of the touched rows, of the table and of all that its optimizer keeps."""
    rows = (o.shape(0) or (1,))[0]
    return round((1 + _states(o)[1]) * o.nbytes(0) * touched_rows(o) / max(1, rows))


def slope_bytes(o: Operands) -> int:
    """What an update reads beside table and states: gradients, above all."""
    return sum(value.nbytes for value in _values(o)[1 + _states(o)[1] :])


def _update_flops(o: Operands) -> float:
    width = (o.shape(0) or (1,))[-1]
    per_element = PER_PARAMETER[f"hetpart.{_states(o)[0]}.default"]
    return (asked_ids(o) + per_element * touched_rows(o)) * width


_UPDATES = tuple(f"hetpart.{name}.default" for name in STATES)
flops.add(_update_flops, _UPDATES, CALL_DOMAIN)
bytes_read.add(lambda o: touched_bytes(o) + slope_bytes(o), _UPDATES, CALL_DOMAIN)
bytes_written.add(touched_bytes, _UPDATES, CALL_DOMAIN)
bytes_scattered.add(lambda o: 2 * touched_bytes(o) + slope_bytes(o), _UPDATES, CALL_DOMAIN)
