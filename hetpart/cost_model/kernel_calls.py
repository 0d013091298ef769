"""Which measured kernel an op, or the ops that share a kernel, call: its family, its sizes, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.graph.ir import Graph, Op

DTYPE = "float32"
"""What calibration measures kernels with; others are priced by their work."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Calls of one kernel."""

    family: str
    """A table of a calibration."""
    sizes: tuple[float, ...]
    calls: float = 1.0
    far: bool = False
    """Whether it reads from random places of a weight, which are in no cache however small the model."""


def kernel_call(members: Sequence[Op], graph: Graph, *, in_place: bool = False) -> KernelCall | None:
    """The call of ``members``, which share a kernel and may work ``in_place``; None where no family speaks of it."""
    if in_place:
        return _called(_update, members[-1], graph, "scatter")
    for op in members:
        if op.op_type in HEAVY and not op.domain:
            return _called(HEAVY[op.op_type], op, graph)
    if any(op.op_type in HEADS and not op.domain for op in members):
        return None
    if len(members) > 1 and all(op.op_type == "Transpose" for op in members):
        return _transposes(members, graph)
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


def _gemm(o: Operands, _: str) -> KernelCall | None:
    """Rows of all leading dimensions together where the right side is one matrix, else a product for each."""
    made, left, right = o.output_shape(), o.shape(0), o.input(1)
    if right is None or len(made) < 1 or len(left) < 1:
        return None
    inner = left[0] if o.integer("transA", 0) else left[-1]
    columns = made[-1]
    if right.shape is not None and len(right.shape) <= 2:
        rows = prod(made[:-1])
        return KernelCall("gemm", (rows, inner, columns))
    return KernelCall("batched_gemm", (made[-2] if len(made) > 1 else 1, inner, columns), calls=prod(made[:-2]))


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
    if area == 1:
        return KernelCall("pointwise", sizes, groups)
    return KernelCall("convolution", sizes, groups * area / _SPATIAL_WEIGHTS)


def _each_element(o: Operands, family: str) -> KernelCall | None:
    return KernelCall(family, (max(1, o.output_numel()),))


def _two_sided(o: Operands, family: str) -> KernelCall | None:
    """An operand that is much smaller than the result is read again and again from a cache."""
    numel = max(1, o.output_numel())
    smaller = min((v.numel for v in o.inputs if v is not None), default=0)
    if family == "add" and smaller * 2 < numel:
        return KernelCall("add_row", (numel,))
    return KernelCall(family, (numel,))


def _rowwise(o: Operands, family: str) -> KernelCall | None:
    width = (o.shape(0) or (1,))[-1] or 1
    return KernelCall(family, (max(1, o.numel(0) // width), width))


def _along_last(o: Operands, family: str) -> KernelCall | None:
    axis, rank = o.integer("axis", -1), len(o.shape(0))
    return _rowwise(o, family) if axis in (-1, rank - 1) else None


def _reduction(o: Operands, family: str) -> KernelCall | None:
    """Rows are summed up one by one where the last axis goes, else added to each other."""
    results = max(1, o.output_numel())
    reduced = max(1, o.numel(0) // results)
    inner = _kept_behind(o.shape(0), o.output_shape())
    if inner is None:
        return KernelCall(family, (results, reduced))
    return KernelCall("reduction_across", (max(1, results // inner), reduced, inner))


def _kept_behind(shape: tuple[int, ...], made: tuple[int, ...]) -> int | None:
    """Elements of the trailing axes that a reduction keeps; None where it takes the last one.

    Axes that were dropped cannot be told from shapes alone where sizes repeat; then the first fit counts.
    """
    if len(shape) == len(made):
        kept = [size == other for size, other in zip(shape, made, strict=True)]
    else:
        start = next((i for i, (size, other) in enumerate(zip(shape, made, strict=False)) if size != other), len(made))
        dropped = range(start, start + len(shape) - len(made))
        kept = [axis not in dropped for axis in range(len(shape))]
    if not shape or not kept[-1] or all(kept):
        return None
    last = max(axis for axis, stays in enumerate(kept) if not stays)
    return prod(shape[last + 1 :])


def _transpose(o: Operands, family: str) -> KernelCall | None:
    return _permuted(o, o.integers("perm"), family)


def _transposes(members: Sequence[Op], graph: Graph) -> KernelCall | None:
    """Several, one behind the other, run as the one that does what all of them do."""
    axes = range(len(graph.values[members[0].inputs[0] or 0].shape or ()))
    for op in members:
        axes = [axes[axis] for axis in Operands.of(op, graph).integers("perm")]
    return _permuted(Operands.of(members[0], graph), axes, "transpose")


def _permuted(o: Operands, perm: Sequence[int], family: str) -> KernelCall:
    """Trailing axes that stay where they are move as runs; those of a single place may go anywhere.

    Where all others stay, it is a plain copy.
    """
    shape = o.shape(0)
    axes = [axis for axis in perm if axis < len(shape) and shape[axis] != 1]
    run = _words(o)
    if axes == sorted(axes):
        return KernelCall(COPY, (max(1.0, o.numel(0) * run),))
    for axis, place in zip(reversed(axes), sorted(axes, reverse=True), strict=True):
        if axis != place:
            break
        run *= shape[axis]
    return KernelCall(family, (max(1.0, o.numel(0) * _words(o)), max(1.0, min(run, LONGEST_RUN))))


def _gather(o: Operands, family: str) -> KernelCall | None:
    """A copy for each index and each of the places before the axis."""
    shape = o.shape(0)
    axis = o.integer("axis", 0) % max(1, len(shape))
    width = max(1, prod(shape[axis + 1 :]))
    rows = max(1, o.output_numel() // width)
    # Indices address one block after the other.
    block = o.nbytes(0) // max(1, prod(shape[:axis]))
    sizes = (rows, max(1.0, width * _words(o)), max(1, min(MOST_TABLE_BYTES, block)))
    return KernelCall(family, sizes)


def _words(o: Operands) -> float:
    """Of four bytes, in an element: what is only moved takes as long whatever it means."""
    value = o.input(0)
    return 1.0 if value is None else element_bytes(value) / 4


def _joined(o: Operands, family: str) -> KernelCall | None:
    """A tensor's part of a row is copied at a time: of a concatenation's inputs, or of what a split makes."""
    pieces = [v for v in (o.inputs if o.op.op_type == "Concat" else o.outputs) if v is not None]
    whole = o.output_shape() if o.op.op_type == "Concat" else o.shape(0)
    axis = o.integer("axis", 0) % max(1, len(whole))
    copies = max(1, prod(whole[:axis]) * len(pieces))
    numel = max(1.0, prod(whole) * _words(o))
    return KernelCall(family, (numel, max(1.0, min(LONGEST_RUN, numel / copies))))


def _copied(o: Operands, family: str) -> KernelCall | None:
    """Elements move in runs that lie together in what is read and in what is made."""
    run = _words(o)
    for size, made in zip(reversed(o.shape(0)), reversed(o.output_shape()), strict=False):
        run *= max(1, min(size, made))
        if size != made:
            break
    return KernelCall(family, (max(1.0, o.output_numel() * _words(o)), max(1.0, min(run, LONGEST_RUN))))


def _scatter(o: Operands, family: str) -> KernelCall | None:
    """All of the data is copied, then each update written."""
    return KernelCall(family, (max(1.0, o.output_numel() * _words(o)), max(1, o.numel(1))))


def _update(o: Operands, family: str) -> KernelCall | None:
    """Each update is written where it belongs."""
    return KernelCall(family, (max(1, o.numel(1)), max(1, o.numel(1))))


def _window(o: Operands, family: str) -> KernelCall | None:
    area = prod(o.integers("kernel_shape")) or 1
    return KernelCall(family, (max(1, o.output_numel()), area))


def _whole_image(o: Operands, family: str) -> KernelCall | None:
    return KernelCall(family, (max(1, o.numel(0)),))


LONGEST_RUN = 512
"""Elements; longer runs are copied at the same rate."""
MOST_TABLE_BYTES = 2**30
"""Beyond, the rows of a table lie no farther away."""
DOMAINS = ("", "com.microsoft")
_Rule = Callable[[Operands, str], KernelCall | None]
MOVERS: frozenset[_Rule] = frozenset({_joined, _copied, _transpose, _gather, _scatter, _update})
HEAVY: Mapping[str, _Rule] = {"MatMul": _gemm, "Gemm": _gemm, "Conv": _convolution}
"""Ops that give a fused kernel its name and nearly all of its time."""
HEADS = frozenset({*HEAVY, "MatMulInteger"})
"""The same, and those that no family speaks of."""
_COPIES = ("DepthToSpace", "Expand", "GatherND", "Pad", "ScatterND", "Slice", "SpaceToDepth", "Tile")
RULES: Mapping[str, tuple[str, _Rule]] = {
    **dict.fromkeys(
        ("Abs", "Ceil", "Clip", "Floor", "LeakyRelu", "Neg", "Relu", "Round", "Sign"), ("relu", _each_element)
    ),
    **dict.fromkeys(("Add", "Max", "Min", "Mul", "Sub", "Sum"), ("add", _two_sided)),
    **dict.fromkeys(("Div", "Reciprocal", "Sqrt"), ("div", _two_sided)),
    **dict.fromkeys(("Exp", "Log", "Softplus"), ("exp", _each_element)),
    **dict.fromkeys(("Elu", "HardSigmoid", "HardSwish", "Sigmoid", "Swish"), ("sigmoid", _each_element)),
    **dict.fromkeys(
        ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), ("layer_normalization", _rowwise)
    ),
    **dict.fromkeys(("LogSoftmax", "Softmax"), ("softmax", _along_last)),
    **dict.fromkeys(("ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), ("reduction", _reduction)),
    **dict.fromkeys(("AveragePool", "MaxPool"), ("pool", _window)),
    **dict.fromkeys(("Concat", "Split"), ("concat", _joined)),
    **dict.fromkeys(_COPIES, ("concat", _copied)),
    "BatchNormalization": ("relu", _each_element),
    "BiasGelu": ("bias_gelu", _each_element),
    "Erf": ("erf", _each_element),
    "FastGelu": ("fast_gelu", _each_element),
    "Gather": ("gather", _gather),
    "Gelu": ("gelu", _each_element),
    "GlobalAveragePool": ("relu", _whole_image),
    "GlobalMaxPool": ("relu", _whole_image),
    "Pow": ("pow", _two_sided),
    "ScatterElements": ("scatter", _scatter),
    "SkipLayerNormalization": ("skip_layer_normalization", _rowwise),
    "Tanh": ("tanh", _each_element),
    "Transpose": ("transpose", _transpose),
    "Where": ("add", _each_element),
}
"""Family and sizes by op type."""
COPY = "relu"
"""The family that takes what copying takes: each element is read and written once."""
STREAMED = "gemm_streamed"
"""The family of products whose weights come from main memory."""
REORDER = "reorder"
"""The family of what brings an image's channels into blocks and back."""
BY_ELEMENTS = frozenset({
    "add", "add_row", "bias_gelu", "concat", "div", "erf", "exp", "fast_gelu", "gelu", "pow", "relu", "scatter",
    "sigmoid", "tanh", "transpose",
})  # fmt: skip
"""Families whose first size is elements, up to more than any cache holds."""
