"""LSTM, GRU and RNN: two matrix products a step, and the recurrent weights read anew in each."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, bytes_read, flops, launches, no_arithmetic
from hetpart.graph.calls import CALL_DOMAIN

GATE_FLOPS: dict[str, float] = {"LSTM": 35, "GRU": 25, "RNN": 8, "DynamicQuantizeLSTM": 40}
"""Beside the products, per element of the hidden state and step."""
_PACKED = {"hetpart_packed.lstm.default": 4, "hetpart_packed.recurrent.default": 3}
"""PyTorch's layers over packed sequences, with the place of their first weight."""


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


def _packed_weights(o: Operands) -> list[int]:
    """Elements of each, biases too."""
    return [value.numel for value in o.inputs[_PACKED[o.op.op_type] :] if value is not None]


def _packed_bytes(o: Operands) -> int:
    """The input and, in each step, of which there are as many as batch sizes, all weights."""
    weights = sum(o.nbytes(place) for place in range(_PACKED[o.op.op_type], len(o.inputs)))
    return o.input_bytes + max(0, o.numel(1) - 1) * weights


flops.add(lambda o: 2.0 * _tokens(o) * sum(_packed_weights(o)), tuple(_PACKED), CALL_DOMAIN)
bytes_read.add(_packed_bytes, tuple(_PACKED), CALL_DOMAIN)
launches.add(lambda o: 1 + o.numel(1), tuple(_PACKED), CALL_DOMAIN)
no_arithmetic(("hetpart_packed.pack.default", "hetpart_packed.pad.default"), CALL_DOMAIN)
