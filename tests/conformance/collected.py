"""The models of ``onnx.backend.test``, without a run of any."""

from __future__ import annotations

import unittest
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep

from tests.conformance.outcomes import every_test, failures


def collected_models(step: int = 1) -> dict[str, onnx.ModelProto]:
    """The model that every ``step``-th test for the CPU would run, by its number and name."""
    found: dict[str, onnx.ModelProto] = {}

    class Collector(Backend):
        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

        @classmethod
        def prepare(cls, model: onnx.ModelProto, _device: str = "CPU", **_: Any) -> BackendRep:
            found[f"{len(found)} {model.graph.name}"] = model
            raise unittest.SkipTest("it has been collected")

    failures(Collector, frozenset(every_test(Collector)[::step]))
    return found
