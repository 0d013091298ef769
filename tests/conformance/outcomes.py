"""Run ONNX's own backend tests on a backend and tell which pass."""

from __future__ import annotations

import unittest
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx.backend.test import BackendTest

if TYPE_CHECKING:
    from onnx.backend.base import Backend

FLOAT16_ULPS = 2**-9
"""Two units in the last place of float16, relative. The CPU provider computes neighbouring float16 ops in float32, and
a value that crosses a border is rounded to what it is declared to be. ``onnx``'s runner allows bfloat16 the same."""


class Tests(BackendTest):
    """``onnx.backend.test``, with two units in the last place allowed to float16."""

    @classmethod
    def assert_similar_outputs(
        cls, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None = None
    ) -> None:
        if any(getattr(output, "dtype", None) == np.float16 for output in outputs):
            rtol = max(rtol, FLOAT16_ULPS)
        super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, model_dir)


def every_test(backend: type[Backend]) -> list[str]:
    """Every test of ``onnx.backend.test`` for the CPU."""
    cases = Tests(backend, __name__).test_cases.values()
    return sorted({name for case in cases for name in dir(case) if _is_test(name)})


def _is_test(name: str) -> bool:
    return name.startswith("test_") and name.endswith("_cpu")


def failures(backend: type[Backend], wanted: Container[str]) -> dict[str, str | None]:
    """For every test in ``wanted``, what went wrong; ``None`` where it passed."""
    found: dict[str, str | None] = {}
    for case in Tests(backend, __name__).test_cases.values():
        for name in filter(_is_test, dir(case)):
            if name in wanted:
                found[name] = _failure(case, name)
    return found


def _failure(case: type[unittest.TestCase], name: str) -> str | None:
    try:
        getattr(case(name), name)()
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is a failed test
        return f"{type(error).__name__}: {error}"
    return None
