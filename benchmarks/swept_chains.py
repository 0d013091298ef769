"""Models that are drawn: a few ops, one behind the other, on values of megabytes, alike for equal seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 22
CONTRIB = "com.microsoft"
LENGTHS = (2, 4)
"""Ops of a chain, the least and the most."""
STARTS: tuple[tuple[int, ...], ...] = (
    (4, 256, 768), (8, 197, 384), (12, 512, 160), (1024, 1024), (1000, 1536), (2, 64, 96, 112), (4, 48, 80, 80),
    (1, 12, 320, 320), (8, 20, 112, 72),
)  # fmt: skip
HALF_OFTEN = 0.2
"""How likely a chain is of half precision."""

Sizes = tuple[int, ...]


@dataclass
class Chain:
    """A model that grows at its end."""

    rng: Random
    last: str
    shape: Sizes
    dtype: type[np.floating[Any]]
    earlier: list[tuple[str, Sizes]] = field(default_factory=list[tuple[str, Sizes]])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def put(self, op_type: str, *inputs: str, shape: Sizes | None = None, outputs: int = 1, **options: Any) -> str:
        """Append an op on ``inputs``, by default what the last one made."""
        made = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        node = helper.make_node(op_type, inputs or (self.last,), made, name=f"n{len(self.nodes)}", **options)
        self.nodes.append(node)
        self.earlier.append((self.last, self.shape))
        self.last, self.shape = made[0], self.shape if shape is None else shape
        return made[0]

    def weight(self, *shape: int) -> str:
        array = np.random.default_rng(len(self.weights)).standard_normal(shape).astype(self.dtype)
        return self.constant(array)

    def constant(self, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def axis(self) -> int:
        return self.rng.randrange(len(self.shape))

    def with_size(self, axis: int, size: int) -> Sizes:
        return (*self.shape[:axis], size, *self.shape[axis + 1 :])

    def alike(self) -> str:
        """An earlier value of the same shape, which may be the last one."""
        return self.rng.choice(
            [name for name, shape in (*self.earlier, (self.last, self.shape)) if shape == self.shape]
        )

    @property
    def element(self) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))

    def model(self, start: Sizes) -> onnx.ModelProto:
        ends = [
            helper.make_tensor_value_info(name, self.element, shape)
            for name, shape in (("x", start), (self.last, self.shape))
        ]
        graph = helper.make_graph(self.nodes, "chain", ends[:1], ends[1:], self.weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


Step = Callable[[Chain], object]


def _by_constant(op_type: str) -> Step:
    """With a factor, a row, a column, or as much again."""

    def step(c: Chain) -> None:
        sizes = ((), c.shape[-1:], (*c.shape[:-1], 1), c.shape)
        c.put(op_type, c.last, c.weight(*c.rng.choice(sizes)))

    return step


def _joined(c: Chain) -> None:
    axis = c.axis()
    c.put("Concat", c.last, c.alike(), axis=axis, shape=c.with_size(axis, 2 * c.shape[axis]))


def _turned(c: Chain) -> None:
    axes = c.rng.sample(range(len(c.shape)), len(c.shape))
    c.put("Transpose", perm=axes, shape=tuple(c.shape[axis] for axis in axes))


def _flattened(c: Chain) -> None:
    shape = (prod(c.shape[:-1]), c.shape[-1])
    c.put("Reshape", c.last, c.constant(np.array(shape)), shape=shape)


def _halved(c: Chain) -> None:
    axis = c.axis()
    ends = (np.array([edge]) for edge in (0, c.shape[axis] // 2, axis))
    c.put("Slice", c.last, *(c.constant(end) for end in ends), shape=c.with_size(axis, c.shape[axis] // 2))


def _swapped_halves(c: Chain) -> None:
    """As rotary positions do it."""
    whole, half = c.shape, c.shape[-1] // 2
    parts = [c.with_size(len(whole) - 1, size) for size in (half, whole[-1] - half)]
    sizes = c.constant(np.array([part[-1] for part in parts]))
    first = c.put("Split", c.last, sizes, axis=-1, outputs=2, shape=parts[0])
    c.put("Neg", first.replace("_0", "_1"), shape=parts[1])
    c.put("Concat", c.last, first, axis=-1, shape=whole)


def _padded(c: Chain) -> None:
    pads = np.zeros(2 * len(c.shape), np.int64)
    axis = c.axis()
    pads[axis] = 3
    c.put("Pad", c.last, c.constant(pads), shape=c.with_size(axis, c.shape[axis] + 3))


def _gathered(c: Chain) -> None:
    axis = c.axis()
    rows = np.arange(0, c.shape[axis], 2)
    c.put("Gather", c.last, c.constant(rows), axis=axis, shape=c.with_size(axis, len(rows)))


def _reduced(op_type: str) -> Step:
    def step(c: Chain) -> None:
        axis = c.axis()
        whole, source = c.shape, c.last
        c.put(op_type, c.last, c.constant(np.array([axis])), keepdims=1, shape=c.with_size(axis, 1))
        c.put("Sub", source, c.last, shape=whole)

    return step


def _cast(c: Chain) -> None:
    """There, computed, and back."""
    other = TensorProto.DOUBLE if c.rng.random() < 0.5 or c.dtype is np.float16 else TensorProto.FLOAT16
    c.put("Cast", to=other)
    c.put(c.rng.choice(["Sqrt", "Floor", "Neg"]))
    c.put("Cast", to=c.element)


def _chosen(c: Chain) -> None:
    mask = np.arange(prod(c.shape[-2:])).reshape(c.shape[-2:]) % 3 == 0
    c.put("Where", c.constant(mask), c.last, c.constant(np.array(0, c.dtype)))


def _compared(c: Chain) -> None:
    source = c.last
    c.put("Greater", source, c.constant(np.array(0.1, c.dtype)))
    c.put("Where", c.last, source, c.alike() if c.rng.random() < 0.5 else c.constant(np.array(0, c.dtype)))


def _multiplied(c: Chain) -> None:
    width = c.rng.choice([160, 512, 1024])
    c.put("MatMul", c.last, c.weight(c.shape[-1], width), shape=(*c.shape[:-1], width))
    if c.rng.random() < 0.6:
        c.put("Add", c.last, c.weight(width))


def _by_itself(c: Chain) -> None:
    """Scores of every row and every other."""
    source, order = c.last, [*range(len(c.shape) - 2), len(c.shape) - 1, len(c.shape) - 2]
    rows = c.shape[-2]
    c.put("Transpose", perm=order, shape=(*c.shape[:-2], *c.shape[:-3:-1]))
    c.put("MatMul", source, c.last, shape=(*c.shape[:-2], rows, rows))
    if c.rng.random() < 0.5:
        c.put("Mul", c.last, c.constant(np.array(0.125, c.dtype)))


def _along(op_type: str) -> Step:
    return lambda c: c.put(op_type, axis=c.axis())


def _normalized(c: Chain) -> None:
    width = c.shape[-1]
    if c.rng.random() < 0.5:
        c.put("Add", c.last, c.alike())
    c.put("LayerNormalization", c.last, c.weight(width), c.weight(width), axis=-1)


def _by_channel(op_type: str, inputs: int) -> Step:
    def step(c: Chain) -> None:
        names = [c.weight(c.shape[1]) for _ in range(inputs - 1)]
        positive = [c.constant(np.ones(c.shape[1], c.dtype))] if op_type == "BatchNormalization" else []
        c.put(op_type, c.last, *names, *positive)

    return step


def _convolved(c: Chain) -> None:
    kind, channels = c.rng.choice(["plain", "depthwise", "pointwise", "strided"]), c.shape[1]
    filters = channels if kind == "depthwise" else c.rng.choice([24, 32, 96])
    size, stride = (1 if kind == "pointwise" else 3), (2 if kind == "strided" else 1)
    image = tuple((side + 2 * (size // 2) - size) // stride + 1 for side in c.shape[2:])
    weight = c.weight(filters, 1 if kind == "depthwise" else channels, size, size)
    bias = [c.weight(filters)] if c.rng.random() < 0.5 else []
    c.put(
        "Conv", c.last, weight, *bias, pads=[size // 2] * 4, strides=[stride] * 2,
        group=channels if kind == "depthwise" else 1, shape=(c.shape[0], filters, *image),
    )  # fmt: skip


def _deconvolved(c: Chain) -> None:
    made = (c.shape[0], 16, *(2 * side for side in c.shape[2:]))
    c.put("ConvTranspose", c.last, c.weight(c.shape[1], 16, 2, 2), strides=[2, 2], shape=made)


def _pooled(op_type: str) -> Step:
    def step(c: Chain) -> None:
        image = tuple(side // 2 for side in c.shape[2:])
        c.put(op_type, kernel_shape=[2, 2], strides=[2, 2], shape=(*c.shape[:2], *image))

    return step


def _resized(c: Chain) -> None:
    mode = c.rng.choice(["nearest", "linear"])
    sizes = (*c.shape[:2], *(2 * side for side in c.shape[2:]))
    if prod(sizes) < 1 << 23:
        c.put("Resize", c.last, "", "", c.constant(np.array(sizes)), mode=mode, shape=sizes)


def _squeezed(c: Chain) -> None:
    """Channels weighted by what they hold."""
    source, whole = c.last, c.shape
    c.put("GlobalAveragePool", shape=(*whole[:2], 1, 1))
    c.put("Conv", c.last, c.weight(whole[1], whole[1], 1, 1))
    c.put("Sigmoid")
    c.put("Mul", source, c.last, shape=whole)


def _from_depth(c: Chain) -> None:
    if c.shape[1] % 4 == 0:
        image = (2 * side for side in c.shape[2:])
        c.put("DepthToSpace", blocksize=2, shape=(c.shape[0], c.shape[1] // 4, *image))


PLAIN = (
    "Abs", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
    "LeakyRelu", "Mish", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt",
    "Tanh", "ThresholdedRelu",
)  # fmt: skip
ANY_RANK: Mapping[str, Step] = {
    **{kind: lambda c, kind=kind: c.put(kind) for kind in PLAIN},
    **{f"{kind} const": _by_constant(kind) for kind in ("Add", "Div", "Max", "Mul", "PRelu", "Sub")},
    **{kind: lambda c, kind=kind: c.put(kind, c.last, c.alike()) for kind in ("Add", "Mul", "Min", "Sum")},
    **{kind: _along(kind) for kind in ("Hardmax", "LogSoftmax", "LpNormalization", "Softmax")},
    **{kind: _reduced(kind) for kind in ("ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceSum")},
    "Cast": _cast,
    "Concat": _joined,
    "CumSum": lambda c: c.put("CumSum", c.last, c.constant(np.array(c.axis()))),
    "Gather": _gathered,
    "LayerNormalization": _normalized,
    "MatMul": _multiplied,
    "MatMul itself": _by_itself,
    "Pad": _padded,
    "Pow": lambda c: c.put("Pow", c.last, c.constant(np.array(2, c.dtype))),
    "Reshape": _flattened,
    "Slice": _halved,
    "Split": _swapped_halves,
    "Transpose": _turned,
    "Trilu": lambda c: c.put("Trilu", upper=1),
    "Where": _chosen,
    "Where compared": _compared,
}
IMAGES: Mapping[str, Step] = {
    "AveragePool": _pooled("AveragePool"),
    "BatchNormalization": _by_channel("BatchNormalization", 4),
    "Conv": _convolved,
    "Conv again": _convolved,
    "ConvTranspose": _deconvolved,
    "DepthToSpace": _from_depth,
    "InstanceNormalization": _by_channel("InstanceNormalization", 3),
    "MaxPool": _pooled("MaxPool"),
    "Resize": _resized,
    "SqueezeExcite": _squeezed,
}
"""Steps for images alone; they take the others as well."""
SINGLE_ALONE = frozenset({"Celu"})
"""Steps that half precision has no op for."""
IMAGE_RANK = 4
IMAGES_OFTEN = 0.6


def drawn_chain(seed: int) -> tuple[str, onnx.ModelProto]:
    """The names of its steps, and the model of that number."""
    rng = Random(seed)
    start = rng.choice(STARTS)
    dtype = np.float16 if rng.random() < HALF_OFTEN else np.float32
    chain, names = Chain(rng, "x", start, dtype), list[str]()
    chain.put("Erf")
    for _ in range(rng.randint(*LENGTHS)):
        of_images = len(chain.shape) == IMAGE_RANK and rng.random() < IMAGES_OFTEN
        steps = IMAGES if of_images else ANY_RANK
        names.append(rng.choice([name for name in steps if dtype is np.float32 or name not in SINGLE_ALONE]))
        steps[names[-1]](chain)
    chain.put("Erf")
    precision = "" if dtype is np.float32 else " in half precision"
    return f"{' > '.join(names)}{precision}", chain.model(start)
