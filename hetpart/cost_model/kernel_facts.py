"""What ONNX Runtime's own registry says of kernels: data, in ``kernels.json``, and which ONNX Runtime it speaks of."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict, cast

from hetpart.graph.ir import Graph, Op, ValueKind
from hetpart.graph.kernel_rules import TypedOp

FACTS = Path(__file__).parent / "kernels.json"


class _OpFacts(TypedDict, total=False):
    since: list[int]
    cpu: list[tuple[int, int, dict[str, int]]]
    function: int
    expands: list[tuple[int, int, dict[str, int]]]
    cuda: list[tuple[int, int, dict[str, int]]]
    host_inputs: list[int]
    host_outputs: list[int]
    takes: dict[str, int]


class _Facts(TypedDict):
    onnxruntime: str
    opsets: dict[str, int]
    types: list[str]
    ops: dict[str, dict[str, _OpFacts]]


@dataclass(frozen=True, slots=True)
class TypedOperand:
    """An operand of a kernel, and the dtypes it may have."""

    is_output: bool
    position: int
    dtypes: frozenset[str]

    @staticmethod
    def of(slot: str, index: int) -> TypedOperand:
        """``slot`` as the data file writes it: ``0`` is input 0, ``o0`` output 0."""
        return TypedOperand(slot.startswith("o"), int(slot.removeprefix("o")), _dtypes(index))

    def takes(self, op: TypedOp) -> bool:
        """Whether the operand of ``op`` is left out, of unknown dtype, or of one that is taken."""
        dtypes = op.makes if self.is_output else op.reads
        dtype = dtypes[self.position] if self.position < len(dtypes) else None
        return not dtype or dtype in self.dtypes

    def suits(self, op: Op, graph: Graph, instead: Mapping[str, str]) -> bool:
        """Whether the operand of ``op`` is left out, no tensor, of unknown dtype, or of one that is taken.

        ``instead`` is the dtype that another is cast to where only that one is taken.
        """
        values = op.outputs if self.is_output else op.inputs
        position = values[self.position] if self.position < len(values) else None
        value = None if position is None else graph.values[position]
        if value is None or value.kind is not ValueKind.TENSOR or not value.dtype:
            return True
        return value.dtype in self.dtypes or instead.get(value.dtype) in self.dtypes


Kernels = tuple[tuple[TypedOperand, ...], ...]
"""For each kernel, the operands whose dtypes it limits."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What is known of one op type in one opset version."""

    name: str
    """Op type and schema version, as in ``Unique-11``."""
    cpu: Kernels
    function: bool
    """Its schema has a body of other ops, which ONNX Runtime puts in its place where no provider has a kernel."""
    expands: Kernels
    """What of that body the CPU provider runs, where it has no kernel for the op."""
    cuda: Kernels
    host_inputs: frozenset[int]
    host_outputs: frozenset[int]
    takes: tuple[TypedOperand, ...]
    """What the schema of an operator of ONNX Runtime's own allows its inputs, whichever provider runs it."""


def runtime() -> str:
    """Which ONNX Runtime the facts speak of, in words."""
    return f"ONNX Runtime {_facts()['onnxruntime']}"


def newest_opset(op: Op) -> int:
    """The newest version of its domain that ONNX Runtime reads; the op's own where any is read."""
    return _facts()["opsets"].get(op.domain, op.version)


@cache
def kernel_facts(domain: str, op_type: str, version: int) -> KernelFacts | None:
    """Facts about ``op_type`` as opset ``version`` of ``domain`` defines it; None where no provider knows it."""
    facts = _facts()
    row = facts["ops"].get(domain, {}).get(op_type)
    if row is None:
        return None
    since = _schema_version(row.get("since", []), version)
    return KernelFacts(
        name=f"{op_type}-{since}",
        cpu=_kernels(row.get("cpu", []), since),
        function=bool(row.get("function", 0)),
        expands=_kernels(row.get("expands", []), version),
        cuda=_kernels(row.get("cuda", []), since),
        host_inputs=frozenset(row.get("host_inputs", [])),
        host_outputs=frozenset(row.get("host_outputs", [])),
        takes=tuple(TypedOperand.of(slot, index) for slot, index in row.get("takes", {}).items()),
    )


def _kernels(rows: list[tuple[int, int, dict[str, int]]], since: int) -> Kernels:
    kernels = (types for first, last, types in rows if _covers(first, last, since))
    return tuple(tuple(TypedOperand.of(slot, index) for slot, index in types.items()) for types in kernels)


def _schema_version(since: list[int], version: int) -> int:
    """The newest schema version an opset contains: opset 20 has ``Gather`` as of 13."""
    position = bisect_right(since, version)
    return since[position - 1] if position else version


def _covers(first: int, last: int, since: int) -> bool:
    """ONNX Runtime takes a kernel without a last version for its first version only."""
    return since == first if last == 0 else first <= since <= last


@cache
def _facts() -> _Facts:
    return cast("_Facts", json.loads(FACTS.read_text(encoding="utf-8")))


@cache
def _dtypes(index: int) -> frozenset[str]:
    return frozenset(_facts()["types"][index].split())
