"""One table per question: how many flops, bytes read, bytes written, bytes scattered and launches an op has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.work import Work

Answer = TypeVar("Answer", int, float, Work)
Key = tuple[str, str]
"""Domain (``""`` is ai.onnx) and op type."""

ONNX = ""
ML = "ai.onnx.ml"
CONTRIB = "com.microsoft"
PREVIEW = "ai.onnx.preview"
TRAINING = "ai.onnx.preview.training"


class Table(Generic[Answer]):
    """Formulas by domain and op type. A key given twice is a mistake, and raises."""

    def __init__(self, question: str) -> None:
        self.question = question
        self._rows: dict[Key, Callable[[Operands], Answer]] = {}

    def add(self, formula: Callable[[Operands], Answer], op_types: Iterable[str], domain: str = ONNX) -> None:
        """Answer this table's question for ``op_types`` by ``formula``.

        Raises:
            ValueError: one of them has an answer already.
        """
        for op_type in op_types:
            if (domain, op_type) in self._rows:
                raise ValueError(f"{self.question} of {domain or 'ai.onnx'}.{op_type} has two formulas")
            self._rows[domain, op_type] = formula

    def __call__(
        self, *op_types: str, domain: str = ONNX
    ) -> Callable[[Callable[[Operands], Answer]], Callable[[Operands], Answer]]:
        """Decorator that adds a formula for ``op_types``."""

        def register(formula: Callable[[Operands], Answer]) -> Callable[[Operands], Answer]:
            self.add(formula, op_types, domain)
            return formula

        return register

    def answer(self, key: Key, operands: Operands, default: Answer) -> Answer:
        """This table's answer for an op, or ``default`` where it has none."""
        formula = self._rows.get(key)
        return default if formula is None else formula(operands)

    def get(self, key: Key) -> Callable[[Operands], Answer] | None:
        return self._rows.get(key)

    def keys(self) -> Iterable[Key]:
        return self._rows.keys()


whole: Table[Work] = Table("work")
"""Ops whose work is one formula: those with bodies. It is asked first."""
flops: Table[float] = Table("flops")
"""An op that is missing both here and in ``whole`` has no formula at all."""
bytes_read: Table[int] = Table("bytes read")
"""An op that is missing here reads every input once."""
bytes_written: Table[int] = Table("bytes written")
"""An op that is missing here writes every output once."""
bytes_scattered: Table[int] = Table("bytes scattered")
"""An op that is missing here touches no scattered rows."""
launches: Table[int] = Table("launches")
"""An op that is missing here starts one kernel."""
serial_cycles: Table[float] = Table("serial cycles")
spread_cycles: Table[float] = Table("spread cycles")
"""Ops that are missing in both have vectorised kernels on processors, which take as long as their flops and bytes."""


def per_output_element(rows: Mapping[str, float], domain: str = ONNX) -> None:
    """Add ops whose flops are a number times the elements they write."""
    for op_type, cost in rows.items():
        flops.add(lambda o, cost=cost: cost * o.output_numel(), (op_type,), domain)


def per_input_element(rows: Mapping[str, float], domain: str = ONNX) -> None:
    """Add ops whose flops are a number times the elements of their first input."""
    for op_type, cost in rows.items():
        flops.add(lambda o, cost=cost: cost * o.numel(0), (op_type,), domain)


def no_arithmetic(op_types: Iterable[str], domain: str = ONNX) -> None:
    """Add ops that only move bytes."""
    flops.add(lambda _: 0.0, op_types, domain)


def reads_nothing(op_types: Iterable[str], domain: str = ONNX) -> None:
    """Say of ops that they make their output from a shape or a few scalars."""
    bytes_read.add(lambda _: 0, op_types, domain)


def moves_nothing(op_types: Iterable[str], domain: str = ONNX) -> None:
    """Add views and metadata: no arithmetic, no byte, no kernel."""
    types = tuple(op_types)
    no_arithmetic(types, domain)
    for table in (bytes_read, bytes_written, launches):
        table.add(lambda _: 0, types, domain)
