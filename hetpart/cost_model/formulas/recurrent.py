"""LSTM, GRU and RNN: two matrix products a step, and the recurrent weights read anew in each."""

from __future__ import annotations

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    bytes_read,
    flops,
    launches,
    no_arithmetic,
    serial_cycles,
    spread_cycles,
)
from hetpart.graph.calls import CALL_DOMAIN

GATE_FLOPS: dict[str, float] = {"LSTM": 35, "GRU": 25, "RNN": 8, "DynamicQuantizeLSTM": 40}
"""Beside the products, per element of the hidden state and step."""
PRODUCT_CYCLES = 0.11
"""Of each multiply-add of an ``RNN``, on an EPYC 9004 taken to run at 3.5 GHz."""
ACTIVATION_CYCLES: dict[str, float] = {
    "Affine": 0, "Elu": 14, "HardSigmoid": 24, "LeakyRelu": 0, "Relu": 0, "Softplus": 12, "Softsign": 0,
    "ThresholdedRelu": 0,
}  # fmt: skip
USUAL_CYCLES = 37.0
"""Of each element of its hidden state and step, on one thread: of ``Tanh``, and of what else the C library computes.
LSTM and GRU have vectors for theirs."""
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
    hidden = o.integer("hidden_size", o.shape(2)[-1] if o.shape(2) else 1)
    products = 2.0 * _tokens(o) * (o.numel(1) + o.numel(2))
    return products + GATE_FLOPS[o.op.op_type] * _tokens(o) * _directions(o) * hidden


def _recurrent_bytes(o: Operands) -> int:
    return o.input_bytes + (_steps(o) - 1) * o.nbytes(2)


for types, domain in ((("GRU", "LSTM", "RNN"), ""), (("DynamicQuantizeLSTM",), CONTRIB)):
    flops.add(_recurrent_flops, types, domain)
    bytes_read.add(_recurrent_bytes, types, domain)
    launches.add(lambda o: 1 + _steps(o), types, domain)


def _directions(o: Operands) -> int:
    return o.shape(2)[0] if o.shape(2) else 1


@serial_cycles("RNN")
def _activations(o: Operands) -> float:
    named = o.attribute("activations", ())
    first = str(named[0]) if isinstance(named, tuple) and named else "Tanh"
    hidden = o.integer("hidden_size", o.shape(2)[-1] if o.shape(2) else 1)
    return ACTIVATION_CYCLES.get(first, USUAL_CYCLES) * _tokens(o) * _directions(o) * hidden


@spread_cycles("RNN")
def _products(o: Operands) -> float:
    return PRODUCT_CYCLES * _tokens(o) * (o.numel(1) + o.numel(2))


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
