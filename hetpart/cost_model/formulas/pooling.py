"""Pooling, reductions and sampling: many elements in, few out, or the other way round."""

from __future__ import annotations

from math import log2, prod

from hetpart.cost_model.formulas.along_axes import reduces_nothing
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.cost_model.formulas.table import (
    CONTRIB,
    bytes_read,
    flops,
    per_input_element,
    per_output_element,
    serial_cycles,
    spread_cycles,
)

PER_INPUT_ELEMENT: dict[str, float] = {
    "ArgMax": 1, "ArgMin": 1, "CumProd": 1, "CumSum": 1, "GlobalAveragePool": 1, "GlobalLpPool": 3, "GlobalMaxPool": 1,
    "MaxUnpool": 1,
}  # fmt: skip
REDUCED: dict[str, float] = {
    "ReduceL1": 2, "ReduceL2": 2, "ReduceLogSum": 1, "ReduceLogSumExp": 6, "ReduceMax": 1, "ReduceMean": 1,
    "ReduceMin": 1, "ReduceProd": 1, "ReduceSum": 1, "ReduceSumSquare": 2,
}  # fmt: skip
"""Per element of the input, where axes are given."""
CONTRIB_PER_INPUT_ELEMENT: dict[str, float] = {
    "QLinearGlobalAveragePool": 2, "QLinearReduceMean": 2, "ReduceSumInteger": 1,
}  # fmt: skip
WINDOW_FLOPS: dict[str, float] = {"AveragePool": 1, "LpPool": 3, "MaxPool": 1}
INTERPOLATION_FLOPS: dict[str, float] = {"nearest": 1, "linear": 11, "bilinear": 11, "cubic": 70, "bicubic": 70}
"""Per element written of an image, index arithmetic included."""
NEIGHBOURS = {"nearest": 1, "cubic": 4, "bicubic": 4}
"""Elements around a place that count, along each axis; 2 of other modes."""
LERP_FLOPS = 3
"""Of finding what lies between two elements; on a grid of n axes 2^n lie around a place."""
SAMPLES_PER_BIN = 4
"""RoiAlign's two samples each way, where ``sampling_ratio`` leaves the number to the region's size."""
ALIGNED_CYCLES, SAMPLE_CYCLES = 12.0, 5.3
"""Of each element that ``RoiAlign`` writes, and of each of its samples: 17, 33 and 96 cycles for 1, 4 and 16. Here and
below on an EPYC 9004, taken to run at 3.5 GHz."""
CROPPED_CYCLES = {"bilinear": 13.8, "nearest": 10.2}
"""Of each element that ``CropAndResize`` writes."""
LARGEST_CYCLES = 35.0
"""Of each element that ``MaxRoiPool`` writes, of three elements each way: 24 of one, 137 of seven, which no shape
tells."""
SUPPRESSION_FLOPS = 16
"""Per score, beside the sort: a score is compared with the boxes kept so far."""

per_input_element(PER_INPUT_ELEMENT)
per_input_element(CONTRIB_PER_INPUT_ELEMENT, CONTRIB)
for _op_type, _each in REDUCED.items():
    flops.add(lambda o, each=_each: 0.0 if reduces_nothing(o) else each * o.numel(0), (_op_type,))
per_output_element({"AffineGrid": 8, "MaxRoiPool": 8})


def _window(o: Operands) -> float:
    return float(o.output_numel() * prod(o.integers("kernel_shape")))


@flops(*WINDOW_FLOPS)
def _pool(o: Operands) -> float:
    return WINDOW_FLOPS[o.op.op_type] * _window(o)


@flops("MaxpoolWithMask", "NhwcMaxPool", "QLinearAveragePool", domain=CONTRIB)
def _contrib_pool(o: Operands) -> float:
    return _window(o)


def _interpolation(o: Operands) -> float:
    return INTERPOLATION_FLOPS.get(str(o.attribute("mode", "")), 11) * o.output_numel()


@flops("Resize", "Upsample")
def _resize(o: Operands) -> float:
    return INTERPOLATION_FLOPS.get(str(o.attribute("mode", "nearest")), 11) * o.output_numel()


@flops("GridSample")
def _on_a_grid(o: Operands) -> float:
    """Where a place lies between two elements, axis by axis, and what lies there."""
    if str(o.attribute("mode", "linear")) not in ("linear", "bilinear"):
        return _interpolation(o)
    axes = max(1, len(o.shape(0)) - 2)
    return float((LERP_FLOPS * (2**axes - 1) + axes) * o.output_numel())


flops.add(_interpolation, ("GridSample", "CropAndResize"), CONTRIB)


def _samples(o: Operands) -> int:
    ratio = o.integer("sampling_ratio", 0)
    return ratio * ratio if ratio > 0 else SAMPLES_PER_BIN


@flops("RoiAlign")
def _align_regions(o: Operands) -> float:
    return 11.0 * o.output_numel() * _samples(o)


@spread_cycles("RoiAlign")
def _sampled(o: Operands) -> float:
    return o.output_numel() * (ALIGNED_CYCLES + SAMPLE_CYCLES * _samples(o))


@spread_cycles("CropAndResize", domain=CONTRIB)
def _cropped(o: Operands) -> float:
    return CROPPED_CYCLES.get(str(o.attribute("mode", "bilinear")), 0.0) * o.output_numel()


@serial_cycles("MaxRoiPool")
def _largest(o: Operands) -> float:
    return LARGEST_CYCLES * o.output_numel()


@bytes_read("RoiAlign")
def _sampled_bytes(o: Operands) -> int:
    """Four neighbours of each sample, however many regions overlap, and the regions themselves."""
    return round(4 * _samples(o) * o.output_numel() * _size(o)) + o.nbytes(1) + o.nbytes(2)


def _size(o: Operands) -> float:
    return element_bytes(first) if (first := o.input(0)) is not None else 4.0


def _around(o: Operands, axes: int, mode: str) -> int:
    """What counts of an image for the places in it that are written, the whole at most; and all other inputs."""
    counted = NEIGHBOURS.get(str(o.attribute("mode", mode)), 2) ** axes * o.output_numel() * _size(o)
    return min(o.nbytes(0), round(counted)) + sum(map(o.nbytes, range(1, len(o.op.inputs))))


@bytes_read("GridSample")
def _read_on_a_grid(o: Operands) -> int:
    return _around(o, max(1, len(o.shape(0)) - 2), "linear")


@bytes_read("Resize", "Upsample")
def _read_to_resize(o: Operands) -> int:
    """With antialias an image that shrinks is read whole."""
    sizes = [*zip(o.shape(0), o.output_shape(), strict=False)]
    if o.integer("antialias", 0) or not sizes:
        return sum(map(o.nbytes, range(len(o.op.inputs))))
    return _around(o, sum(before != after for before, after in sizes), "nearest")


bytes_read.add(lambda o: _around(o, 2, "bilinear"), ("GridSample", "CropAndResize"), CONTRIB)


@flops("TopK")
def _top_k(o: Operands) -> float:
    """A heap of ``k``, the size of the output along ``axis``: each element is compared, and a few sink."""
    shape, axis = o.output_shape(), o.integer("axis", -1)
    kept = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return o.numel(0) * (1 + log2(max(2, kept)))


@flops("NonMaxSuppression")
def _suppress(o: Operands) -> float:
    boxes = o.shape(1)[-1] if o.shape(1) else 1
    return o.numel(1) * (log2(max(2, boxes)) + SUPPRESSION_FLOPS)


def _unique(o: Operands) -> float:
    return o.numel(0) * log2(max(2, o.numel(0)))


flops.add(_unique, ("Unique",))
flops.add(_unique, ("Unique",), CONTRIB)
