"""Tensors made from nothing: random numbers, ranges and windows; and spectra, which windows serve."""

from __future__ import annotations

from math import log2

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    flops,
    per_input_element,
    per_output_element,
    reads_nothing,
    serial_cycles,
)

PER_ELEMENT: dict[str, float] = {
    "BlackmanWindow": 20, "HammingWindow": 10, "HannWindow": 10, "MelWeightMatrix": 10, "RandomNormal": 24,
    "RandomNormalLike": 24, "RandomUniform": 8, "RandomUniformLike": 8, "Range": 1,
}  # fmt: skip
"""A random number takes a round of Philox, a normal one Box-Muller's logarithm and cosine as well."""
FFT_FLOPS = 5.0
"""Per complex element and level of a fast Fourier transform."""
AXIS_IS_INPUT = 20
"""Opset from which the axis is the third input of DFT; before, it was an attribute."""
LENGTH_INPUT, AXIS_INPUT = 1, 2
WINDOW_CYCLES = {"BlackmanWindow": 65.0, "HammingWindow": 34.0, "HannWindow": 34.0}
"""Of each element: cosines, one or two. Here and below on an EPYC 9004, taken to run at 3.5 GHz."""
SAMPLE_CYCLES, LEVEL_CYCLES, ROOT_CYCLES = 9.0, 4.7, 36.0
"""Of each element of a signal that ``fft_radix2`` of ``dft.cc`` transforms, of each of its levels, and, once for all
signals, of each root of unity: 42 to 67 cycles for 128 to 4096 elements."""
CHIRP_CYCLES, CHIRP_ONCE_CYCLES = 15.0, 110.0
"""Of each element of a signal of another length, padded, beside two transforms of that length, and, once for all
signals, beside a transform and its roots: ``dft_bluestein_z_chirp``. 130 to 150 cycles for 256 to 2048 padded
elements."""

per_output_element(PER_ELEMENT)
per_output_element({"Range": 1}, CONTRIB)
per_input_element({"Bernoulli": 9})
reads_nothing(PER_ELEMENT)
reads_nothing(("Range",), CONTRIB)


@flops("Multinomial")
def _multinomial(o: Operands) -> float:
    """A cumulative sum over the classes, and a binary search for each sample."""
    classes = o.shape(0)[-1] if o.shape(0) else 1
    return 5.0 * o.numel(0) + o.output_numel() * (8 + log2(max(2, classes)))


@flops("DFT")
def _fourier(o: Operands) -> float:
    """Half of it where one side is given or made: the other is its mirror image."""
    length = transformed_length(o)
    sides = 0.5 if o.integer("onesided", 0) else 1.0
    return FFT_FLOPS * sides * _signals(o) * length * log2(max(2, length))


def _signals(o: Operands) -> float:
    """How many a DFT transforms."""
    axis, shape = _axis(o), o.shape(0)
    return o.numel(0) / max(1, (shape[axis] if _is_axis(axis, shape) else 1) * shape[-1]) if shape else 0.0


def padded_length(length: int) -> int:
    """What a signal is transformed as: itself where its length is a power of two, else a convolution with a chirp."""
    return length if length & (length - 1) == 0 else 1 << (2 * length - 2).bit_length()


def _transform_cycles(signals: float, length: int) -> float:
    """Of all of a length, one after the other; both sides are computed even where one is written."""
    padded = padded_length(length)
    each = SAMPLE_CYCLES + LEVEL_CYCLES * log2(max(2, padded))
    if padded == length:
        return length * (signals * each + ROOT_CYCLES)
    return padded * (signals * (2 * each + CHIRP_CYCLES) + each + ROOT_CYCLES + CHIRP_ONCE_CYCLES)


serial_cycles.add(lambda o: _transform_cycles(_signals(o), transformed_length(o)), ("DFT",))
for _window, _each in WINDOW_CYCLES.items():
    serial_cycles.add(lambda o, each=_each: each * o.output_numel(), (_window,))


def transformed_length(o: Operands) -> int:
    """Elements that a DFT makes of, or from, each signal: one that comes back from one side is what it returns."""
    back = o.integer("inverse", 0) and o.integer("onesided", 0)
    shape, axis = o.output_shape() if back else o.shape(0), _axis(o)
    return max(1, _constant(o, LENGTH_INPUT, shape[axis] if _is_axis(axis, shape) else 1))


def _axis(o: Operands) -> int:
    return _constant(o, AXIS_INPUT, -2) if o.op.version >= AXIS_IS_INPUT else o.integer("axis", 1)


def _is_axis(axis: int, shape: tuple[int, ...]) -> bool:
    return -len(shape) <= axis < len(shape)


def _constant(o: Operands, position: int, default: int) -> int:
    content = o.content(position)
    return int(content[0]) if content else default


@flops("STFT")
def _short_time_fourier(o: Operands) -> float:
    """Of one side half the bins are a mirror image, and are not written."""
    frames, length = _frames(o)
    return FFT_FLOPS * (0.5 if o.integer("onesided", 1) else 1.0) * frames * length * log2(length)


def _frames(o: Operands) -> tuple[float, int]:
    """How many, and how long: the output is [batch, frames, bins, 2]."""
    shape = o.output_shape()
    bins = max(1, shape[-2]) if len(shape) > 1 else 2
    return o.output_numel() / (2 * bins), max(2, 2 * (bins - 1) if o.integer("onesided", 1) else bins)


serial_cycles.add(lambda o: _transform_cycles(*_frames(o)), ("STFT",))


@flops("Irfft", "Rfft", domain=CONTRIB)
def _contrib_fourier(o: Operands) -> float:
    length = o.shape(0)[-1] if o.shape(0) else 2
    return FFT_FLOPS / 2 * o.numel(0) * log2(max(2, length))
