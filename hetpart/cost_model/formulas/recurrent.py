"""LSTM, GRU and RNN: two matrix products a step, and the recurrent weights read anew in each."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, bytes_read, flops, launches

GATE_FLOPS: dict[str, float] = {"LSTM": 35, "GRU": 25, "RNN": 8, "DynamicQuantizeLSTM": 40}
"""Beside the products, per element of the hidden state and step."""


def _steps(o: Operands) -> int:
    """Length of the sequence: X is [steps, batch, size], or [batch, steps, size] with ``layout`` 1."""
    shape = o.shape(0)
    axis = 1 if o.integer("layout", 0) else 0
    return max(1, shape[axis]) if len(shape) > axis else 1


def _tokens(o: Operands) -> int:
    shape = o.shape(0)
    return o.numel(0) // max(1, shape[-1] if shape else 1)


def _recurrent_flops(o: Operands) -> float:
    """Every weight of W [directions, gates × hidden, size] and of R is used once for each token."""
    directions = o.shape(2)[0] if o.shape(2) else 1
    hidden = o.integer("hidden_size", o.shape(2)[-1] if o.shape(2) else 1)
    products = 2.0 * _tokens(o) * (o.numel(1) + o.numel(2))
    return products + GATE_FLOPS[o.op.op_type] * _tokens(o) * directions * hidden


def _recurrent_bytes(o: Operands) -> int:
    return o.input_bytes + (_steps(o) - 1) * o.nbytes(2)


for types, domain in ((("GRU", "LSTM", "RNN"), ""), (("DynamicQuantizeLSTM",), CONTRIB)):
    flops.add(_recurrent_flops, types, domain)
    bytes_read.add(_recurrent_bytes, types, domain)
    launches.add(lambda o: 1 + _steps(o), types, domain)
