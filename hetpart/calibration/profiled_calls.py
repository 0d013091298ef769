"""From a kernel in ONNX Runtime's profile to the call whose seconds the tables tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from hetpart.cost_model.call_seconds import Surroundings
from hetpart.cost_model.kernel_calls import REORDER, kernel_call
from hetpart.cost_model.measured import LOOKUPS
from hetpart.cost_model.moving_calls import KernelCall
from hetpart.graph.ir import DTYPE_BITS, Attribute, Graph, Op, Value, ValueKind, ValueRole

_DTYPES = {"float": "float32", "double": "float64"}
"""Element types that ONNX Runtime's profile calls otherwise."""
REORDERS = frozenset({"ReorderInput", "ReorderOutput"})
FUSED: Mapping[str, str] = {"FusedConv": "Conv", "FusedGemm": "Gemm", "FusedMatMul": "MatMul", "QuickGelu": "Sigmoid"}
"""Kernels of the optimiser's own whose time is that of another op's."""
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand as a profile tells it."""

    dtype: str
    shape: Shape

    @classmethod
    def of(cls, name: str, shape: Shape) -> Tensor:
        """By ONNX Runtime's name of the element type."""
        return cls(_DTYPES.get(name, name), shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * DTYPE_BITS.get(self.dtype, 32) // 8


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """A node of a profiled session."""

    op_type: str
    inputs: tuple[Tensor, ...]
    """Weights that ONNX Runtime packed are not among them."""
    outputs: tuple[Tensor, ...]
    parameter_bytes: int
    """Of the weights that are."""
    seconds: float


@dataclass(frozen=True, slots=True)
class ProfiledCall:
    """A kernel's call, and where its operands lay."""

    call: KernelCall
    seconds: float
    around: Surroundings


@dataclass(frozen=True, slots=True)
class _Completed:
    """A kernel with what its shapes tell of the rest."""

    kernel: ProfiledKernel
    inputs: tuple[Tensor, ...]
    packed: Tensor | None = None
    """The weight that was packed, its second input."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    told: bool = True
    """Whether its shapes tell all that its sizes depend on."""

    @property
    def weight_bytes(self) -> int:
        """Of all weights that a run reads from end to end."""
        packed = 0 if self.packed is None else self.packed.nbytes
        return packed + (0 if self.kernel.op_type in LOOKUPS else self.kernel.parameter_bytes)

    @property
    def touched(self) -> int:
        """Bytes read and written; of tables that rows are looked up in, what is made of them."""
        read = self.inputs[1:] if self.kernel.op_type in LOOKUPS else self.inputs
        return sum(tensor.nbytes for tensor in (*read, *self.kernel.outputs))

    def call(self) -> KernelCall | None:
        """Nothing where no family speaks of it, or its shapes leave its sizes open."""
        if not self.told:
            return None
        if self.kernel.op_type in REORDERS:
            return KernelCall(REORDER, (max(1, prod(self.kernel.outputs[0].shape)),))
        graph = self._graph()
        return kernel_call(graph.ops, graph)

    def _graph(self) -> Graph:
        """A graph of the one op, from which sizes are read as they are when a model is priced."""
        tensors = (*self.inputs, *self.kernel.outputs)
        values = tuple(_value(i, tensor, self._role(i)) for i, tensor in enumerate(tensors))
        reads, makes = tuple(range(len(self.inputs))), tuple(range(len(self.inputs), len(tensors)))
        op_type = FUSED.get(self.kernel.op_type, self.kernel.op_type)
        op = Op(0, op_type, "", op_type, 0, reads, makes, (), self.attributes, "")
        return Graph("profiled", (op,), values, reads, makes, {}, 0, {})

    def _role(self, position: int) -> ValueRole:
        """Of a second input: a weight where it was packed, or parameters take at least its bytes."""
        if position != 1 or len(self.inputs) < 2:
            return ValueRole.ACTIVATION
        constant = self.packed is not None or 0 < self.inputs[1].nbytes <= self.kernel.parameter_bytes
        return ValueRole.WEIGHT if constant else ValueRole.ACTIVATION


def kernel_calls(kernels: Sequence[ProfiledKernel]) -> Iterator[ProfiledCall]:
    """The calls of a run's kernels, in order, those left out of which no family speaks.

    A profile does not say which kernel made an operand: the last one before that made one of its type and shape did.
    """
    completed = [_completed(kernel) for kernel in kernels]
    weights, whole = sum(one.weight_bytes for one in completed), sum(one.touched for one in completed)
    began: dict[Tensor, int] = {}
    passed = 0
    for one in completed:
        distance = max((passed - began.get(tensor, passed - whole) for tensor in one.inputs), default=0)
        began.update(dict.fromkeys(one.kernel.outputs, passed))
        passed += one.touched
        call = one.call()
        if call is not None:
            yield ProfiledCall(call, one.kernel.seconds, Surroundings(distance, one.touched, weights))


def _completed(kernel: ProfiledKernel) -> _Completed:
    complete = _COMPLETE.get(FUSED.get(kernel.op_type, kernel.op_type))
    told = bool(kernel.inputs and kernel.outputs)
    found = complete(kernel) if complete is not None and told else None
    return found or _Completed(kernel, kernel.inputs, told=told and complete is None)


def _product(kernel: ProfiledKernel) -> _Completed | None:
    """A weight that was packed is not told: its sizes follow from the other side and the result."""
    left, made = kernel.inputs[0], kernel.outputs[0]
    if len(left.shape) < 2 or len(made.shape) < 2:
        return None
    turned = left.shape[-2] != made.shape[-2]
    if turned and (len(left.shape) > 2 or left.shape[-1] != made.shape[-2]):
        return None
    inner, columns = left.shape[-2 if turned else -1], made.shape[-1]
    right = kernel.inputs[1].shape if len(kernel.inputs) > 1 else ()
    attributes = {"transA": int(turned), "transB": int(right[-2:] == (columns, inner) != (inner, columns))}
    if len(right) > 2 or sorted(right) == sorted((inner, columns)):
        return _Completed(kernel, kernel.inputs, attributes=attributes)
    weight = Tensor(left.dtype, (inner, columns))
    return _Completed(kernel, (left, weight, *kernel.inputs[1:]), weight, attributes)


def _convolution(kernel: ProfiledKernel) -> _Completed | None:
    """Channels of the image to those of a filter are the groups."""
    if len(kernel.inputs) < 2 or len(kernel.inputs[0].shape) != len(kernel.inputs[1].shape) or len(_image(kernel)) < 3:
        return None
    channels, (outputs, inner) = _image(kernel)[1], kernel.inputs[1].shape[:2]
    groups = channels // max(1, inner)
    if groups < 1 or groups * inner != channels or outputs % groups:
        return None
    return _Completed(kernel, kernel.inputs, attributes={"group": groups})


def _image(kernel: ProfiledKernel) -> Shape:
    return kernel.inputs[0].shape


def _transposition(kernel: ProfiledKernel) -> _Completed | None:
    """Axes are told by their sizes, where these differ; axes of one may go anywhere."""
    before, after = _image(kernel), kernel.outputs[0].shape
    sizes = [size for size in before if size != 1]
    if len(set(sizes)) != len(sizes) or sorted(before) != sorted(after):
        return None
    ones = iter([axis for axis, size in enumerate(before) if size == 1])
    axes = tuple(next(ones) if size == 1 else before.index(size) for size in after)
    return _Completed(kernel, kernel.inputs, attributes={"perm": axes})


def _concatenation(kernel: ProfiledKernel) -> _Completed | None:
    return _along(kernel, kernel.inputs[0].shape, kernel.outputs[0].shape)


def _split(kernel: ProfiledKernel) -> _Completed | None:
    return _along(kernel, kernel.outputs[0].shape, kernel.inputs[0].shape)


def _along(kernel: ProfiledKernel, piece: Shape, whole: Shape) -> _Completed | None:
    """The axis is the one in which a piece differs from the whole."""
    differs = [axis for axis, (size, other) in enumerate(zip(piece, whole, strict=False)) if size != other]
    if len(piece) != len(whole) or len(differs) != 1:
        return None
    return _Completed(kernel, kernel.inputs, attributes={"axis": differs[0]})


def _lookup(kernel: ProfiledKernel) -> _Completed | None:
    """The axis is the one in whose place the indices' shape stands in the result."""
    if len(kernel.inputs) < 2:
        return None
    (table, indices), made = (tensor.shape for tensor in kernel.inputs[:2]), kernel.outputs[0].shape
    fitting = [axis for axis in range(len(table)) if (*table[:axis], *indices, *table[axis + 1 :]) == made]
    if len(fitting) != 1:
        return None
    return _Completed(kernel, kernel.inputs, attributes={"axis": fitting[0]})


def _untold(kernel: ProfiledKernel) -> None:
    """The window of a pool is an attribute, and no shape tells it."""
    del kernel


_COMPLETE: Mapping[str, Callable[[ProfiledKernel], _Completed | None]] = {
    "AveragePool": _untold,
    "Concat": _concatenation,
    "Conv": _convolution,
    "Gather": _lookup,
    "Gemm": _product,
    "MatMul": _product,
    "MaxPool": _untold,
    "Split": _split,
    "Transpose": _transposition,
}


def _value(number: int, tensor: Tensor, role: ValueRole) -> Value:
    return Value(number, f"v{number}", ValueKind.TENSOR, role, tensor.dtype, tensor.shape, None, tensor.nbytes)
