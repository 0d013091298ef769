"""Models that are exported once in a test run."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import pytest
from torch.onnx._constants import ONNX_DEFAULT_OPSET

import hetpart
from hetpart.frontend.model import ExportedModel
from tests.pytorch.models import CASES, Case


@pytest.fixture(scope="session", autouse=True)
def one_registry() -> Generator[None]:
    """The exporter makes its table of operators once, which takes it a second, and not for every model."""
    from torch.onnx._internal.exporter import _decomp, _registration

    with pytest.MonkeyPatch.context() as patch:
        table = _registration.ONNXRegistry.from_torchlib(opset_version=ONNX_DEFAULT_OPSET)
        patch.setattr(_registration.ONNXRegistry, "from_torchlib", lambda *_, **__: table)
        found = _decomp.create_onnx_friendly_decomposition_table(set(_decomp.get_onnx_implemented_overloads(table)))
        patch.setattr(_decomp, "create_onnx_friendly_decomposition_table", lambda _: dict(found))
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
