"""Models that are exported once in a test run."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import pytest
import torch

import hetpart
from benchmarks.exporter_table import made_once
from hetpart.frontend.model import ExportedModel
from tests.pytorch.models import CASES, Case


@pytest.fixture(scope="session", autouse=True)
def one_registry() -> Generator[None]:
    """The exporter makes its table of operators once, and not for every model."""
    with made_once():
        yield


@cache
def _case(name: str) -> Case:
    return CASES[name]()


@cache
def _exported(name: str) -> ExportedModel:
    case = _case(name)
    return hetpart.export(case.module, args=case.args, kwargs=case.kwargs, dynamic_shapes=case.dynamic_shapes)


@cache
def _planned(name: str, placement: str) -> hetpart.PartitionedModel:
    return hetpart.partition(_exported(name), hardware="emulated", placement=placement)


class Models:
    """The cases, each made, exported and planned once."""

    def case(self, name: str) -> Case:
        return _case(name)

    def planned(self, name: str, placement: str) -> hetpart.PartitionedModel:
        return _planned(name, placement)

    def __call__(self, name: str) -> tuple[Case, ExportedModel]:
        return _case(name), _exported(name)


@pytest.fixture(scope="session")
def known() -> Models:
    return Models()


@pytest.fixture
def needs_eager(request: pytest.FixtureRequest) -> None:
    """Leaves out what eager PyTorch itself cannot compute on this processor, so that there is nothing to compare with.

    Beneath autocast it takes oneDNN's LSTM of bfloat16, which there is none of without AVX-512 (2.13: "could not create
    a primitive descriptor"), and where oneDNN is off its results are of another type.
    """
    given = [*request.node.callspec.params.values()]
    casts = "lstm" in given and torch.bfloat16 not in given
    if casts and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        with pytest.raises(RuntimeError, match="primitive descriptor"), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.zeros(1, 2))
        pytest.skip("eager PyTorch has no LSTM of bfloat16 on this processor")
