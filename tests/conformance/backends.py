"""ONNX's backend interface over plain ONNX Runtime and over hetpart, so that ONNX's own tests can judge both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx.backend.base import Backend, BackendRep

import hetpart

THREE_LANES = str(Path(__file__).with_name("three_lanes.toml"))
Setup = tuple[str, bool]
"""The hardware, and whether lanes work at the same time."""
SETUPS: Sequence[Setup] = (
    # An emulated accelerator runs every op; an L4's plan keeps host operands apart and lacks some kernels.
    ("emulated", True), ("l4", True), (THREE_LANES, True), ("emulated", False), ("l4", False),
)  # fmt: skip


@dataclass
class Tally:
    """What the plans that were run exercised."""

    plans: int = 0
    ops: int = 0
    partitions: int = 0
    copies: Counter[str] = field(default_factory=Counter)

    def add(self, session: hetpart.Session) -> None:
        self.plans += 1
        self.ops += len(session.plan.decisions)
        self.partitions += len(session.plan.partitions)
        self.copies.update(direction for direction, _ in session.last_copies())

    def counts(self) -> dict[str, int]:
        return {"plans": self.plans, "ops": self.ops, "partitions": self.partitions, **self.copies}


class OrtBackend(Backend):
    """Plain ONNX Runtime on the CPU: what a model must pass there, hetpart must pass."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, _device: str = "CPU", **_: Any) -> BackendRep:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        return _OrtRep(session)


class _OrtRep(BackendRep):
    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **_: Any) -> Any:
        names = [value.name for value in self.session.get_inputs()]
        return self.session.run(None, dict(zip(names, inputs, strict=False)))


def hetpart_backend(seed: int, tally: Tally, setup: Setup) -> type[Backend]:
    """hetpart with seeded random placements between the CPU and emulated accelerators."""

    class HetpartBackend(OrtBackend):
        @classmethod
        def prepare(cls, model: onnx.ModelProto, _device: str = "CPU", **_: Any) -> BackendRep:
            return _HetpartRep(model, seed, tally, setup)

    return HetpartBackend


class _HetpartRep(BackendRep):
    def __init__(self, model: onnx.ModelProto, seed: int, tally: Tally, setup: Setup) -> None:
        self.model, self.seed, self.tally = model, seed, tally
        self.hardware, self.overlap = setup

    def run(self, inputs: Any, **_: Any) -> Any:
        weights = {tensor.name for tensor in self.model.graph.initializer}
        values = [value for value in self.model.graph.input if value.name not in weights]
        feeds = {value.name: given for value, given in zip(values, inputs, strict=False)}
        model = hetpart.partition(
            self.model,
            hardware=self.hardware,
            placement=f"random:{self.seed}",
            shape=_open_dimensions(values, feeds),
            overlap=self.overlap,
        )
        with model.session(emulate=True, overlap=self.overlap) as session:
            results = session.run(None, feeds)
            self.tally.add(session)
        return results


def _open_dimensions(values: list[onnx.ValueInfoProto], feeds: dict[str, Any]) -> dict[str, int]:
    """Symbolic dimensions, with the sizes the test's data has."""
    return {
        dim.dim_param or f"{value.name}.{axis}": feeds[value.name].shape[axis]
        for value in values
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if value.name in feeds and not dim.HasField("dim_value")
    }
