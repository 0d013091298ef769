"""Which ops the CPU provider computes on channels in blocks, or last, and where values are reordered for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from hetpart.devices import CHANNEL_BLOCK
from hetpart.graph.ir import DTYPE_BITS, Graph, Op, Value

CHANNEL = 1
IMAGE_RANK = 4
ALIGNED = 4
"""Channels are brought into blocks by as many at a time: of a count that this does not divide, none are."""
UPSAMPLED: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "nearest": (frozenset({"asymmetric"}), frozenset({"floor"})),
    "linear": (frozenset({"align_corners", "asymmetric", "half_pixel"}), frozenset[str]()),
}
"""By mode, by which coordinates images in blocks are enlarged, and how those are rounded, where that counts."""
RESIZED_BY_COORDINATES = 11
"""Opset from which Resize says how it finds coordinates."""
NO_NAMES = frozenset[str]()
WHOLE_IMAGES = ("GlobalAveragePool", "GlobalMaxPool")
"""Pools for which no image is reordered that a kernel makes; one that the session is given is."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Channels in blocks of ``channels``, as a processor computes them."""

    channels: int = CHANNEL_BLOCK

    def form(self, value: Value) -> tuple[int, ...] | None:
        """Dimensions of ``value`` with its channels padded to blocks, and the bits of an element.

        ``None`` where it is no batch of images of known size.
        """
        if not is_image(value):
            return None
        batch, channels, *image = (size or 0 for size in value.shape or ())
        return (batch, -(-channels // self.channels) * self.channels, *image, DTYPE_BITS[value.dtype])

    def nbytes(self, value: Value) -> int:
        """Bytes of ``value`` with its channels padded."""
        form = self.form(value)
        assert form is not None
        return prod(form) // 8

    def hold(self, value: Value) -> bool:
        """Whether they hold the channels of ``value`` without padding."""
        form = self.form(value)
        return form is not None and value.shape is not None and form[CHANNEL] == value.shape[CHANNEL]

    def read_by(self, op: Op, graph: Graph, arrives: Callable[[int], bool]) -> tuple[int, ...] | None:
        """The inputs that ``op`` reads in blocks, when its output is; ``None`` where it computes on plain values.

        Args:
            op: Of any type.
            graph: What it is an op of.
            arrives: Whether a value is made in blocks.
        """
        rules = _RULES_OF.get(op.domain)
        rule = None if rules is None else rules.get(op.op_type)
        made = [graph.values[v] for v in op.results[:1]]
        if rule is None or not made or not is_image(made[0]):
            return None
        return rule(op, _Around(graph, arrives, self))


@dataclass(frozen=True, slots=True)
class _Around:
    """What an op is asked about in."""

    graph: Graph
    arrives: Callable[[int], bool]
    blocks: Blocks

    def fits(self, value: int) -> bool:
        return self.blocks.hold(self.graph.values[value])


def is_image(value: Value) -> bool:
    """Whether it is a batch of images of known size, in float32."""
    return value.is_static and value.dtype == "float32" and len(value.shape or ()) == IMAGE_RANK


def _convolution(op: Op, around: _Around) -> tuple[int, ...] | None:
    source, weight = op.inputs[0], op.inputs[1]
    assert source is not None
    assert weight is not None
    values, bias = around.graph.values, op.inputs[2] if len(op.inputs) > 2 else None
    filters, block = values[weight], around.blocks.channels
    if not filters.is_constant or not filters.is_static or (bias is not None and not values[bias].is_constant):
        return None
    made, inner = ((filters.shape or ())[axis] or 0 for axis in (0, 1))
    groups = op.attributes.get("group", 1)
    assert isinstance(groups, int)
    if groups == 1 and inner < block:
        return ()
    depthwise = inner == 1 and made == groups and made % ALIGNED == 0
    whole = inner % block == 0 and made // groups % block == 0
    return (source,) if depthwise or whole or (groups == 1 and inner % ALIGNED == 0) else None


def _pool(op: Op, around: _Around) -> tuple[int, ...] | None:
    source = op.inputs[0]
    assert source is not None
    return (source,) if around.fits(source) and len(op.results) == 1 else None


def _whole_image(op: Op, around: _Around) -> tuple[int, ...] | None:
    return _pool(op, around) if around.arrives(op.uses[0]) else None


def _upsample(op: Op, around: _Around) -> tuple[int, ...] | None:
    """Images that are in blocks are enlarged so, by whole numbers."""
    source = op.inputs[0]
    assert source is not None
    enlarged = around.arrives(source) and _is_plain_enlargement(op) and _enlarges(op, around.graph)
    return (source,) if enlarged else None


def _is_plain_enlargement(op: Op) -> bool:
    coordinates, roundings = UPSAMPLED.get(str(op.attributes.get("mode", "nearest")), (NO_NAMES, NO_NAMES))
    if op.version < RESIZED_BY_COORDINATES:
        return bool(coordinates)
    by = str(op.attributes.get("coordinate_transformation_mode", "half_pixel"))
    rounded = str(op.attributes.get("nearest_mode", "round_prefer_floor"))
    return by in coordinates and (not roundings or rounded in roundings) and "axes" not in op.attributes


def _enlarges(op: Op, graph: Graph) -> bool:
    """By whole numbers, as the scales say, or the sizes where they do."""
    scales = op.inputs[-1] if op.version < RESIZED_BY_COORDINATES else next(iter(op.inputs[2:3]), None)
    told = None if scales is None else graph.values[scales].content
    before, after = (graph.values[value].shape or () for value in (op.uses[0], op.results[0]))
    factors = told or [(large or 0) / (small or 1) for small, large in zip(before, after, strict=True)]
    return [*factors[:2]] == [1, 1] and all(factor >= 1 and factor == int(factor) for factor in factors)


def _where_it_arrives(op: Op, around: _Around) -> tuple[int, ...] | None:
    """Elementwise ops keep the form that all their inputs have."""
    shapes = {around.graph.values[v].shape for v in op.uses}
    return op.uses if len(shapes) == 1 and all(map(around.arrives, op.uses)) else None


def _concat(op: Op, around: _Around) -> tuple[int, ...] | None:
    whole = all(around.arrives(v) and around.fits(v) for v in op.uses)
    return op.uses if whole and op.attributes.get("axis") == CHANNEL else None


def _per_channel(op: Op, around: _Around) -> tuple[int, ...] | None:
    """A scale of each channel becomes a convolution of its own."""
    values = around.graph.values
    flowing = tuple(v for v in op.uses if not values[v].is_constant)
    if len(flowing) != 1 or not around.arrives(flowing[0]):
        return _where_it_arrives(op, around)
    shape = values[flowing[0]].shape
    scales = all(shape is not None and values[v].numel == shape[CHANNEL] for v in op.uses if v not in flowing)
    return flowing if scales else None


_Rule = Callable[[Op, _Around], tuple[int, ...] | None]

RULES: Mapping[str, _Rule] = {
    "Conv": _convolution,
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(WHOLE_IMAGES, _whole_image),
    **dict.fromkeys(("Add", "Gelu", "HardSigmoid", "HardSwish", "Relu", "Sigmoid", "Sum", "Tanh"), _where_it_arrives),
    "Concat": _concat,
    **dict.fromkeys(("Resize", "Upsample"), _upsample),
    **dict.fromkeys(("BatchNormalization", "Mul"), _per_channel),
}  # fmt: skip
_RULES_OF: Mapping[str, Mapping[str, _Rule]] = {
    "": RULES,
    "com.microsoft": dict.fromkeys(("Gelu", "QuickGelu"), _where_it_arrives),
}
"""By domain."""
