"""Ops that are priced once must cost what each would cost alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hetpart
from benchmarks import zoo
from hetpart.cost_model import annotate as pricing
from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.likeness import likenesses
from hetpart.cost_model.machines import load_machine
from hetpart.graph.ir import Graph
from hetpart.rates import Starts
from tests.calibration.test_from_profile import made_up_rates
from tests.cost_model.build import Builder
from tests.cost_model.test_measured import with_rates

MODELS = ("bert-tiny", "gpt2-tiny", "whisper-tiny", "moe-tiny", "control-flow-tiny", "shufflenet")


def unlike(graph: Graph, *_: Any) -> tuple[Hashable, ...]:
    return (None,) * len(graph.ops)


MACHINES = {
    "l4+epyc": lambda: load_machine("l4+epyc"),
    "emulated": lambda: load_machine("emulated"),
    "calibrated": lambda: with_rates(replace(made_up_rates(), cold=Starts(1e-6, 2e-6, 3e-6))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("hardware", MACHINES)
def test_sharing_changes_no_price(
    name: str, hardware: str, zoo_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, machine = hetpart.load(zoo_model(name), shape=zoo.ZOO[name].shape), MACHINES[hardware]()
    shared = pricing.annotate(graph, machine)
    monkeypatch.setattr(pricing, "likenesses", unlike)
    assert shared == pricing.annotate(graph, machine)


def test_repeated_layers_are_alike_and_different_ones_are_not() -> None:
    b = Builder()
    x, first, second, wider = b.value((8, 8)), b.weight((8, 8)), b.weight((8, 8)), b.weight((8, 16))
    one = b.op("MatMul", [x, first], (8, 8))
    b.op("MatMul", [one, second], (8, 8))
    b.op("MatMul", [x, wider], (8, 16))
    b.op("MatMul", [x, second], (8, 8), version=9)
    b.op("Transpose", [x], (8, 8), perm=(1, 0))
    b.op("Transpose", [x], (8, 8), perm=(0, 1))
    b.op("MatMul", [x, x], (8, 8))
    again = b.op("MatMul", [x, second], (8, 8))
    graph = b.graph(again)
    keys = likenesses(graph, find_fusions(graph))
    assert keys[0] == keys[7]
    assert keys[6] is not None
    assert len({keys[op] for op in (0, 1, 2, 3, 4, 5, 6)}) == 7
