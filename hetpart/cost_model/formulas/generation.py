"""Tensors made from nothing: random numbers, ranges and windows; and spectra, which windows serve."""

from __future__ import annotations

from math import log2

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import CONTRIB, flops, per_input_element, per_output_element, reads_nothing

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
    length, axis = transformed_length(o), _axis(o)
    shape = o.shape(0)
    signals = o.numel(0) / max(1, (shape[axis] if _is_axis(axis, shape) else 1) * shape[-1]) if shape else 0.0
    sides = 0.5 if o.integer("onesided", 0) else 1.0
    return FFT_FLOPS * sides * signals * length * log2(max(2, length))


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
    """Output is [batch, frames, bins, 2]. Of one side half the bins are a mirror image, and are not written."""
    shape = o.output_shape()
    one_sided = bool(o.integer("onesided", 1))
    bins = shape[-2] if len(shape) > 1 else 2
    frames = o.output_numel() / (2 * bins)
    length = max(2, 2 * (bins - 1) if one_sided else bins)
    return FFT_FLOPS * (0.5 if one_sided else 1.0) * frames * length * log2(length)


@flops("Irfft", "Rfft", domain=CONTRIB)
def _contrib_fourier(o: Operands) -> float:
    length = o.shape(0)[-1] if o.shape(0) else 2
    return FFT_FLOPS / 2 * o.numel(0) * log2(max(2, length))
