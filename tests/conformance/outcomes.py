"""Run ONNX's own backend tests on a backend and tell which pass."""

from __future__ import annotations

import unittest
from collections.abc import Container
from typing import TYPE_CHECKING

from onnx.backend.test import BackendTest

if TYPE_CHECKING:
    from onnx.backend.base import Backend


def every_test(backend: type[Backend]) -> list[str]:
    """Every test of ``onnx.backend.test`` for the CPU."""
    cases = BackendTest(backend, __name__).test_cases.values()
    return sorted({name for case in cases for name in dir(case) if _is_test(name)})


def _is_test(name: str) -> bool:
    return name.startswith("test_") and name.endswith("_cpu")


def failures(backend: type[Backend], wanted: Container[str]) -> dict[str, str | None]:
    """For every test in ``wanted``, what went wrong; ``None`` where it passed."""
    found: dict[str, str | None] = {}
    for case in BackendTest(backend, __name__).test_cases.values():
        for name in filter(_is_test, dir(case)):
            if name in wanted:
                found[name] = _failure(case, name)
    return found


def _failure(case: type[unittest.TestCase], name: str) -> str | None:
    try:
        getattr(case(name), name)()
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
