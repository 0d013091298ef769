"""Models that are exported once in a test run."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache

import pytest

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
