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
    shape = o.output_shape()
    length = max(shape[1:-1], default=2)
    return FFT_FLOPS * o.output_numel() / 2 * log2(max(2, length))


@flops("STFT")
def _short_time_fourier(o: Operands) -> float:
    """Output is [batch, frames, bins, 2]: half the bins of a frame are its mirror image, and are not written."""
    shape = o.output_shape()
    bins = shape[-2] if len(shape) > 1 else 2
    return FFT_FLOPS * o.output_numel() * log2(max(2, 2 * bins))


@flops("Irfft", "Rfft", domain=CONTRIB)
def _contrib_fourier(o: Operands) -> float:
    length = o.shape(0)[-1] if o.shape(0) else 2
    return FFT_FLOPS / 2 * o.numel(0) * log2(max(2, length))
