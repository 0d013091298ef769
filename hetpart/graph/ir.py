"""The one graph type downstream of import: immutable records that refer to each other by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Any

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
Shape = tuple[int | None, ...]

DTYPE_BITS: Mapping[str, int] = {
    "bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
    "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64, "complex64": 64, "complex128": 128,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
    "float6e2m3": 6, "float6e3m2": 6, "int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2,
    "string": 256,
}  # fmt: skip
"""Bits an element takes in memory. A string's size is not in its type: 32 bytes is ``sizeof(std::string)``."""


class ValueKind(StrEnum):
    """What the value is as a type: only tensors have a shape, and only they can cross by a plain copy."""

    TENSOR = "tensor"
    SEQUENCE = "sequence"
    OPTIONAL = "optional"
    OTHER = "other"


class ValueRole(StrEnum):
    """Where the value comes from."""

    INPUT = "input"
    ACTIVATION = "activation"
    WEIGHT = "weight"
    """An initializer. Its bytes stay in the file until a session loads them."""
    DERIVED = "derived"
    """Computed from weights alone, so it is constant: a weight of its own size, made when a session loads."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor (or sequence, …) that flows between operators, or a weight."""

    id: int
    name: str
    kind: ValueKind
    role: ValueRole
    dtype: str
    """A key of ``DTYPE_BITS``, or ``""`` where inference could not tell."""
    shape: Shape | None
    """``None`` for an unknown rank or a kind without a shape; an entry is ``None`` where only a run can tell."""
    producer: int | None
    """Id of the op that makes it; ``None`` for inputs, weights and derived weights."""
    nbytes: int
    """Exact where ``is_static``; an estimate otherwise."""
    sources: tuple[str, ...] = ()
    """For a derived weight: names of the weights it is made from."""
    parts: tuple[int, ...] | None = None
    """Of a sequence, bytes of each tensor in it; ``None`` where they are not known."""
    content: tuple[float, ...] | None = None
    """Its elements, where it is a constant of a few and they are known before a session loads."""
    same_as: int | None = None
    """Of a derived weight, the first one that is made in the same way of the same."""
    is_static: bool = field(init=False, repr=False, compare=False)
    """Whether kind, dtype and every dimension are known before a run."""
    is_constant: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = self.shape is not None and None not in self.shape
        object.__setattr__(self, "is_static", known and self.kind is ValueKind.TENSOR and bool(self.dtype))
        object.__setattr__(self, "is_constant", self.role is ValueRole.WEIGHT or self.role is ValueRole.DERIVED)

    @property
    def numel(self) -> int:
        """Elements; an unknown dimension counts as in ``nbytes``' estimate, a non-tensor as 0."""
        if self.is_static:
            assert self.shape is not None
            return prod(d for d in self.shape if d is not None)
        return self.nbytes * 8 // DTYPE_BITS.get(self.dtype, 32)


@dataclass(frozen=True, slots=True)
class TripLimit:
    """How often a Loop runs its body at most, as a constant of the model says."""

    count: int
    always: bool
    """Whether it runs that often whatever it is given: no condition can end it before."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the user says of an op and no shape tells. It serves the cost model only."""

    trip_count: int | None = None
    """How often a loop runs its body."""
    probability: float = 1.0
    """That a run of the model needs the op's work."""
    most_bytes_read: int | None = None
    """Bytes that a run reads at most, where only some rows of the op's weights are touched."""


AS_USUAL = Usage()


@dataclass(frozen=True, slots=True)
class Origin:
    """The op of the file whose body an op is from: the user calls it by that name."""

    op_type: str
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """The PyTorch code that an op is from."""

    node: str
    """Its FX node."""
    target: str
    """What that calls, such as ``aten.linear.default``."""
    place: str
    """File, line and function, or ``""``."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. An op with subgraphs (If, Loop, Scan) is one op; its bodies serve the cost model only."""

    id: int
    name: str
    """Unique in its graph, and the node's name in the cut models."""
    domain: str
    """``""`` is the standard ``ai.onnx`` domain."""
    op_type: str
    version: int
    """The opset version the model imports for ``domain``."""
    inputs: tuple[int | None, ...]
    """Value ids by position; ``None`` for an optional input left out."""
    outputs: tuple[int | None, ...]
    captures: tuple[int, ...]
    """Values of this graph that the op's subgraphs use."""
    attributes: Mapping[str, Attribute]
    """Numbers and strings only; tensors and subgraphs are left out."""
    scope: str
    """Dotted module path from the exporter, or ``""``."""
    bodies: tuple[Graph, ...] = ()
    usage: Usage = AS_USUAL
    trip_limit: TripLimit | None = None
    """Of a Loop; ``None`` where only a run tells."""
    origin: Origin | None = None
    """``None`` where the file has the op itself."""
    source: Source | None = None
    """``None`` where the exporter did not say."""
    pin: str = ""
    """The device that whoever wrote the model wants it on."""
    pinned_by: str = ""
    """What says so, in words, where it is not ``hetpart.pin``."""
    every: int = 1
    """In one of how many runs of the model it has something to do, as the file says."""
    uses: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Ids of every value the op reads, each once, inputs before captures."""
    results: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """``outputs`` without those left out."""

    def __post_init__(self) -> None:
        read = dict.fromkeys((*self.inputs, *self.captures))
        object.__setattr__(self, "uses", tuple([v for v in read if v is not None]))
        object.__setattr__(self, "results", tuple([v for v in self.outputs if v is not None]))


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators in a topological order, with the values between them. ``ops[i].id == i``, likewise values."""

    name: str
    ops: tuple[Op, ...]
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    """In the model's order; a value may stand there twice."""
    index_ranges: Mapping[str, int]
    """Integer inputs that index a table: exclusive upper bound of what they may hold."""
    opset: int
    dimensions: Mapping[str, int]
    """Symbolic dimensions of the file, with the number each was bound to."""
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    """Inputs that the file calls states, with the outputs that replace them."""
    together: tuple[tuple[str, ...], ...] = ()
    """Names of ops of which the file says that they share a device."""
    examples: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Numbers that the file says an input may be given: one for all elements, or one for each."""

    @property
    def weights(self) -> tuple[Value, ...]:
        """Constant values that some op uses; what only serves to make a derived weight is not among them."""
        used = {value for op in self.ops for value in op.uses}
        return tuple(value for value in self.values if value.is_constant and value.id in used)

    def value_named(self, name: str) -> Value:
        for value in self.values:
            if value.name == name:
                return value
        raise KeyError(name)

    def in_values(self, op: Op) -> tuple[Value | None, ...]:
        return tuple([None if v is None else self.values[v] for v in op.inputs])

    def out_values(self, op: Op) -> tuple[Value | None, ...]:
        return tuple([None if v is None else self.values[v] for v in op.outputs])

    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For every value, the ids of the ops that use it, in order."""
        users: list[list[int]] = [[] for _ in self.values]
        for op in self.ops:
            for value in op.uses:
                users[value].append(op.id)
        return tuple(tuple(ids) for ids in users)

    def to_networkx(self) -> Any:
        """A ``networkx.MultiDiGraph``: ops as nodes (by name), values between ops as edges."""
        from hetpart.graph.views import to_networkx

        return to_networkx(self)
