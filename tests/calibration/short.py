"""A calibration with two sizes an axis and little time: ``python -m tests.calibration.short FILE``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hetpart.calibration import families, hops, measure, probes, readings, samples


@contextmanager
def few_sizes() -> Iterator[None]:
    """Families of two sizes an axis, and few rounds."""
    thin, convolutions = (
        {name: replace(family, axes=tuple(axis[:2] for axis in family.axes)) for name, family in found.items()}
        for found in (families.FAMILIES, families.CONVOLUTIONS)
    )
    with pytest.MonkeyPatch.context() as patch:
        for module in (families, measure, probes, readings, samples):
            patch.setattr(module, "FAMILIES", thin, raising=False)
            patch.setattr(module, "CONVOLUTIONS", convolutions, raising=False)
            patch.setattr(module, "CHECKS", {"gemm": ((4, 512, 512),)}, raising=False)
            patch.setattr(module, "TABLE_BYTES", 2**25, raising=False)
        patch.setattr(measure, "SECONDS", 4.0)
        patch.setattr(hops, "ROUNDS", 2)
        yield


if __name__ == "__main__":
    with few_sizes():
        Path(sys.argv[1]).write_bytes(msgspec.json.encode(measure.sample()))
