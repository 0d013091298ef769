"""LSTM, GRU and RNN: gates of all steps at once, and for the way back a copy of what goes in and out."""

from __future__ import annotations

from dataclasses import dataclass

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.scratch.table import CONTRIB, FLOAT_BYTES, at_once, scratch

BIAS, LENGTHS, PEEPHOLE = 3, 4, 7
"""Positions of inputs that may be left out."""
CELL = 2
"""Output that holds the last state of an LSTM's cells."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of what a direction holds several of."""

    hidden: int
    """One state of one sequence."""
    states: int
    """One state of every sequence."""
    outputs: int
    """The states of every step."""
    inputs: int
    lengths: int
    """How long each sequence is; 0 where the model says it."""
    ways: tuple[str, ...]
    """Each direction's: ``forward`` or ``reverse``."""

    @classmethod
    def of(cls, o: Operands) -> _Sizes:
        steps, batch, size = (*o.shape(0), 1, 1, 1)[:3]
        hidden = FLOAT_BYTES * o.integer("hidden_size", (o.shape(2) or (1,))[-1])
        direction = str(o.attribute("direction", "forward"))
        ways = ("forward", "reverse") if direction == "bidirectional" else (direction,)
        lengths = batch * FLOAT_BYTES if o.input(LENGTHS) is None else 0
        return cls(hidden, hidden * batch, hidden * batch * steps, FLOAT_BYTES * steps * batch * size, lengths, ways)


def _own_output(o: Operands, position: int, sizes: _Sizes) -> int:
    """The last states, which a kernel keeps for itself where no one asks for them."""
    return 0 if o.output(position) is not None else len(sizes.ways) * sizes.states


def _reversed(way: str, sizes: _Sizes) -> tuple[int, ...]:
    return (sizes.inputs, sizes.outputs) if way == "reverse" else ()


@scratch("LSTM")
def _lstm(o: Operands, _: int) -> Scratch:
    return at_once(*_lstm_blocks(o, _Sizes.of(o)))


def _lstm_blocks(o: Operands, sizes: _Sizes) -> list[int]:
    held = [_own_output(o, 1, sizes), _own_output(o, CELL, sizes)]
    for way in sizes.ways:
        held += [sizes.hidden] * 2 + [sizes.states] * 3 + [4 * sizes.outputs]
        held += [sizes.hidden] * (4 if o.input(BIAS) is not None else 0)
        held += [*_reversed(way, sizes), *[sizes.hidden] * (3 if o.input(PEEPHOLE) is not None else 0), sizes.lengths]
    return held


@scratch("DynamicQuantizeLSTM", domain=CONTRIB)
def _quantized_lstm(o: Operands, _: int) -> Scratch:
    """The same, and each direction's inputs as bytes, and its gates of one step as integers."""
    sizes = _Sizes.of(o)
    quantized = max(sizes.inputs, sizes.states) // FLOAT_BYTES
    return at_once(*_lstm_blocks(o, sizes), *[quantized, 4 * sizes.states] * len(sizes.ways))


@scratch("GRU")
def _gru(o: Operands, _: int) -> Scratch:
    sizes = _Sizes.of(o)
    linear = o.integer("linear_before_reset", 0)
    held = [_own_output(o, 1, sizes)]
    for way in sizes.ways:
        biases = (4 if linear else 3) if o.input(BIAS) is not None else 0
        held += [sizes.states] * (2 + biases + (1 if linear else 0))
        held += [3 * sizes.outputs, *_reversed(way, sizes), sizes.lengths]
    return at_once(*held)


@scratch("RNN")
def _rnn(o: Operands, _: int) -> Scratch:
    """The inputs of one direction times its weights; all outputs where no one asks for them."""
    sizes = _Sizes.of(o)
    return at_once(sizes.outputs, 0 if o.output(0) is not None else len(sizes.ways) * sizes.outputs)
