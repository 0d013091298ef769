"""What ONNX Runtime and ONNX say of operators, as they say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """An entry of ONNX Runtime's kernel registry."""

    provider: str
    domain: str
    op_type: str
    first: int
    last: int
    """The largest int32 where the range of versions is open."""
    types: Mapping[str, tuple[str, ...]]
    """Constraint, or operand, to types as in ``tensor(float)``."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A formal parameter of an operator."""

    name: str
    constraint: str
    types: tuple[str, ...] = ()
    """All that the schema allows, as in ``tensor(float)``."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of an operator, as ONNX Runtime knows it."""

    domain: str
    op_type: str
    since: int
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Standard:
    """A version of an operator, as the ``onnx`` package defines it."""

    domain: str
    op_type: str
    since: int
    is_newest: bool
    has_body: bool


@dataclass(frozen=True, slots=True)
class Dump:
    """All that one installation says."""

    onnxruntime: str
    onnx: str
    opsets: Mapping[str, int]
    """For each domain the newest version that ONNX Runtime reads."""
    kernels: tuple[Kernel, ...]
    schemas: tuple[Schema, ...]
    standards: tuple[Standard, ...]


@dataclass(frozen=True, slots=True)
class Probed:
    """What the registry does not hold, found by sessions of one node each: ``probed.toml``."""

    onnxruntime: str
    host_inputs: Mapping[str, Mapping[str, tuple[int, ...]]]
    """Domain and op type to positions."""
    host_outputs: Mapping[str, Mapping[str, tuple[int, ...]]]
    bodies: Mapping[str, Mapping[str, str]]
    """Domain and op type to dtypes of the first operand."""
    expands: Mapping[str, Mapping[str, Mapping[str, str]]]
    """Domain, op type and version to the dtypes of the first operand, ``any`` where none is limited."""
