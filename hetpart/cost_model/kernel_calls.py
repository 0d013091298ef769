"""Which measured kernel an op, or the ops that share a kernel, call: its family, its sizes, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from hetpart.cost_model.formulas.along_axes import kept_behind
from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.scalar import multiplies
from hetpart.cost_model.formulas.selection import FORESEEN, kept, taken_in, width
from hetpart.cost_model.formulas.windows import is_blocked
from hetpart.cost_model.moving_calls import (
    COPY,
    KernelCall,
    copied,
    found,
    gather,
    joined,
    scatter,
    taken_apart,
    transpose,
    transposes,
    update,
    words,
)
from hetpart.cost_model.product_calls import PLAIN, batched_family, gemm, is_scaled, scaled
from hetpart.graph.ir import Graph, Op

DTYPE = "float32"
"""What calibration measures kernels with; others are priced by their work."""


def kernel_call(members: Sequence[Op], graph: Graph, *, in_place: bool = False) -> KernelCall | None:
    """The call of ``members``, which share a kernel and may work ``in_place``; None where no family speaks of it."""
    if in_place:
        return _called(update, members[-1], graph, "scatter")
    for op in members:
        if op.op_type in HEAVY and op.domain in DOMAINS:
            call = _called(HEAVY[op.op_type], op, graph, batched_family(op, members))
            return call if call is None or not is_scaled(op, members) else scaled(call)
    if any(op.op_type in HEADS and not op.domain for op in members):
        return None
    alike = len(members) > 1 and len({op.op_type for op in members}) == 1
    if alike and members[0].op_type in TOGETHER:
        return TOGETHER[members[0].op_type](members, graph)
    fused = _fused_family(members)
    last = members[-1]
    if fused is not None:
        return _called(_rowwise if "normalization" in fused else _each_element, last, graph, fused)
    rule = RULES.get(last.op_type) if last.domain in DOMAINS else None
    return None if rule is None else _called(rule[1], last, graph, rule[0])


def _called(
    rule: Callable[[Operands, str], KernelCall | None], op: Op, graph: Graph, family: str = ""
) -> KernelCall | None:
    operands = Operands.of(op, graph)
    first = operands.input(0)
    made = operands.output()
    if first is None or made is None or (rule not in MOVERS and DTYPE not in (first.dtype, made.dtype)):
        return None
    return rule(operands, family)


def _fused_family(members: Sequence[Op]) -> str | None:
    """The kernel that several ops without a product or convolution among them become."""
    types = {op.op_type for op in members}
    if len(members) < 2:
        return None
    if types & {"LayerNormalization", "Sqrt"}:
        before = members[0].op_type == "Add"
        return "skip_layer_normalization" if before else "layer_normalization"
    if types & {"Erf", "Gelu"}:
        return "bias_gelu" if members[0].op_type == "Add" else "gelu"
    if "Tanh" in types and "Pow" in types:
        return "fast_gelu"
    return "sigmoid" if "Sigmoid" in types else None


LONGEST_SPAN = 4096
"""Elements; longer ones are computed at the same rate."""
STEM_CHANNELS = 16
"""With fewer channels ONNX Runtime does not compute them in blocks."""
_STEM_CHANNELS = 3
_SPATIAL_WEIGHTS = 3 * 3


def _convolution(o: Operands, _: str) -> KernelCall | None:
    """The image's positions count as one size: batches, and every dimension, add to them."""
    filters, made = o.input(1), o.output_shape()
    if filters is None or filters.shape is None or len(filters.shape) < 3 or len(made) < 3:
        return None
    outputs, inner, *window = (size or 1 for size in filters.shape)
    groups = o.integer("group", 1)
    positions, area = made[0] * prod(made[2:]), prod(window)
    if groups > 1 and inner == 1:
        return KernelCall("depthwise", (outputs, positions * area / _SPATIAL_WEIGHTS))
    if inner < STEM_CHANNELS and groups == 1:
        return KernelCall("stem", (outputs, positions, area), calls=inner / _STEM_CHANNELS)
    sizes = (inner, outputs // groups, positions)
    # Groups whose channels make no blocks are computed side by side, each on one thread.
    aside = groups > 1 and any(channels % STEM_CHANNELS for channels in sizes[:2])
    if area > 1:
        return KernelCall("convolution_grouped" if aside else "convolution", sizes, groups * area / _SPATIAL_WEIGHTS)
    if aside:
        return KernelCall(PLAIN, (outputs // groups, inner, positions), groups)
    return KernelCall("pointwise", sizes, groups)


def _each_element(o: Operands, family: str) -> KernelCall | None:
    return KernelCall(family, (max(1, o.output_numel()),))


def _compared(o: Operands, family: str) -> KernelCall | None:
    """Of operands of any type."""
    return KernelCall(family, (max(1.0, o.output_numel() * words(o)),))


def _two_sided(o: Operands, family: str) -> KernelCall | None:
    """An operand that is much smaller than the result is read again and again from a cache."""
    numel = max(1, o.output_numel())
    smaller = min((v.numel for v in o.inputs if v is not None), default=0)
    if family == "add" and smaller * 2 < numel:
        return KernelCall("add_row", (numel, _span(o)))
    return KernelCall(family, (numel,))


def _span(o: Operands) -> int:
    """Elements that are computed at once: over the last dimensions, all of which an operand has, or none of them."""
    made, span = o.output_shape(), 1
    shapes = [(*(1,) * (len(made) - len(shape)), *shape) for shape in map(o.shape, range(len(o.inputs)))]
    kind: tuple[bool, ...] | None = None
    for axis in reversed(range(len(made))):
        if made[axis] == 1:
            continue
        repeated = tuple(shape[axis] == 1 for shape in shapes)
        if kind not in (None, repeated):
            break
        kind, span = repeated, span * made[axis]
    return max(1, min(span, LONGEST_SPAN))


def _rowwise(o: Operands, family: str) -> KernelCall | None:
    width = (o.shape(0) or (1,))[-1] or 1
    return KernelCall(family, (max(1, o.numel(0) // width), width))


def _along_last(o: Operands, family: str) -> KernelCall | None:
    axis, rank = o.integer("axis", -1), len(o.shape(0))
    return _rowwise(o, family) if axis in (-1, rank - 1) else None


LONGEST_ROW, LONGEST_VECTOR = 1024, 64
"""Elements; what is longer takes as long for each. Sums of long vectors over the first axis stream what they read."""


def _reduction(o: Operands, family: str) -> KernelCall | None:
    """Rows are summed up one by one where the last axis goes, else added to each other."""
    results = max(1, o.output_numel())
    reduced = max(1, o.numel(0) // results)
    inner = kept_behind(o.shape(0), o.output_shape())
    if inner is None:
        rows = results * max(1.0, reduced / LONGEST_ROW)
        return KernelCall(family, (rows, min(reduced, LONGEST_ROW)))
    if inner == results and inner > LONGEST_VECTOR and o.op.op_type in ("ReduceMean", "ReduceSum"):
        return KernelCall(COPY, (max(1, o.numel(0)),))
    return KernelCall("reduction_across", (max(1, results // inner), reduced, inner))


def _by_channel(o: Operands, family: str) -> KernelCall | None:
    """Images of a batch one behind the other, each channel by itself."""
    channels = prod(o.shape(0)[:2])
    return KernelCall(family, (max(1, channels), max(1, o.numel(0) // max(1, channels))))


MOST_WIDTH, MOST_KEPT = 4096, 64
"""Of a row that calibrations measure; longer ones, or more, take their cycles."""


def _largest(o: Operands, family: str) -> KernelCall | None:
    if taken_in(o) > FORESEEN or width(o) > MOST_WIDTH or kept(o) > MOST_KEPT:
        return None
    return KernelCall(family, (max(1, o.numel(0) // width(o)), width(o), kept(o)))


def _power(o: Operands, family: str) -> KernelCall | None:
    return None if multiplies(o) else _two_sided(o, family)


def _window(o: Operands, family: str) -> KernelCall | None:
    if not is_blocked(o):
        return None
    if prod(o.output_shape()[2:]) == 1:
        # Of a window that is the whole image each element is read once, as by GlobalAveragePool.
        return _whole_image(o, "relu")
    area = prod(o.integers("kernel_shape")) or 1
    return KernelCall(family, (max(1, o.output_numel()), area))


def _whole_image(o: Operands, family: str) -> KernelCall | None:
    return KernelCall(family, (max(1, o.numel(0)),))


DOMAINS = ("", "com.microsoft")
_Rule = Callable[[Operands, str], KernelCall | None]
MOVERS: frozenset[_Rule] = frozenset({joined, copied, transpose, gather, found, scatter, update, _compared})
TOGETHER: Mapping[str, Callable[[Sequence[Op], Graph], KernelCall]] = {
    "Gather": taken_apart,
    "Slice": taken_apart,
    "Transpose": transposes,
}
"""Ops of one type that several of are one kernel."""
HEAVY: Mapping[str, _Rule] = {"MatMul": gemm, "FusedMatMul": gemm, "Gemm": gemm, "Conv": _convolution}
"""Ops that give a fused kernel its name and nearly all of its time."""
HEADS = frozenset({*HEAVY, "MatMulInteger"})
"""The same, and those that no family speaks of."""
UNARY = (
    "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sqrt", "Floor", "Softplus", "Ceil", "Softsign",
    "Reciprocal", "Round", "Elu", "HardSigmoid", "Selu", "LeakyRelu", "ThresholdedRelu", "Sin", "Cos", "Log", "Sign",
)  # fmt: skip
"""Ops of one operand, element by element, whose kernels have little code."""
COPIED = "copied"
"""The family of what copies an operand, or a part of it, on one thread: with two, Slice, Expand, Pad, Tile and
SpaceToDepth took as long as with one, where Concat and Split took 0.5 to 0.6 of it."""
_COPIES = ("Expand", "GatherND", "Pad", "ScatterND", "Slice", "SpaceToDepth", "Tile")
RULES: Mapping[str, tuple[str, _Rule]] = {
    **dict.fromkeys(("Abs", "Ceil", "Clip", "Floor", "LeakyRelu", "Neg", "Relu", "Round"), ("relu", _each_element)),
    **dict.fromkeys(("Add", "Max", "Min", "Mul", "Sub", "Sum"), ("add", _two_sided)),
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or"), ("add", _compared)),
    **dict.fromkeys(("Div", "Reciprocal", "Sqrt"), ("div", _two_sided)),
    **dict.fromkeys(("Exp",), ("exp", _each_element)),
    **dict.fromkeys(("HardSigmoid", "HardSwish", "Sigmoid", "Swish"), ("sigmoid", _each_element)),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), ("layer_normalization", _rowwise)
    ),
    **dict.fromkeys(("LogSoftmax", "Softmax"), ("softmax", _along_last)),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), ("reduction", _reduction)),
    **dict.fromkeys(("AveragePool", "MaxPool"), ("pool", _window)),
    **dict.fromkeys(("Concat", "Split"), ("concat", joined)),
    **dict.fromkeys(_COPIES, (COPIED, copied)),
    "BatchNormalization": ("batch_normalization", _by_channel),
    "BiasGelu": ("bias_gelu", _each_element),
    "Erf": ("erf", _each_element),
    "FastGelu": ("fast_gelu", _each_element),
    "Gather": ("gather", gather),
    "Gelu": ("gelu", _each_element),
    "GlobalAveragePool": ("relu", _whole_image),
    "GlobalMaxPool": ("relu", _whole_image),
    "NonZero": ("non_zero", found),
    "Pow": ("pow", _power),
    "ScatterElements": ("scatter", scatter),
    "SkipLayerNormalization": ("skip_layer_normalization", _rowwise),
    "Tanh": ("tanh", _each_element),
    "TopK": ("top_k", _largest),
    "Transpose": ("transpose", transpose),
    "Where": ("add", _each_element),
}
"""Family and sizes by op type."""
GROUPED: Mapping[str, str] = {"convolution_grouped": "convolution"}
"""Families of convolutions whose groups are computed side by side, each on one thread, by the family of one group."""
STREAMED = "gemm_streamed"
"""The family of products whose weights come from main memory."""
LONE: Mapping[str, str] = {COPIED: "concat"}
"""Families of one thread, by the family that they are as fast as there."""
OVERWRITTEN = "relu_overwriting"
"""The family of elementwise ops that write over their input."""
REORDER = "reorder"
"""The family of what brings an image's channels into blocks and back."""
BY_ELEMENTS = frozenset({
    "add", "add_row", "bias_gelu", "concat", COPIED, "div", "erf", "exp", "fast_gelu", "gelu", "pow", "relu", "scatter",
    "sigmoid", "tanh", "transpose",
})  # fmt: skip
"""Families whose first size is elements, up to more than any cache holds."""
