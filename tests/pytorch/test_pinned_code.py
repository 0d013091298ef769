"""Pins around code are followed, whoever traced the code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import traceback

import hetpart

EMULATED = "emulated"
X = torch.linspace(0, 1, 6).reshape(2, 3)


class Pinned(torch.nn.Module):
    """Sin, Exp and Tanh are pinned, Relu and the product are not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with hetpart.pin("cuda"):
            x = torch.sin(x)
            with hetpart.pin("cpu"):
                x = torch.exp(x)
            x = torch.tanh(x)
        return torch.relu(self.inner(x))


WANTED = {"Sin": "cuda:0", "Exp": "cpu", "Tanh": "cuda:0"}
Traced = Callable[[torch.nn.Module], tuple[Any, dict[str, Any]]]


def saved(program: torch.export.ExportedProgram, folder: Path) -> Path:
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


def exported(module: torch.nn.Module, *, strict: bool = False) -> torch.export.ExportedProgram:
    return torch.export.export(module, (X,), strict=strict)


WAYS: dict[str, Callable[[torch.nn.Module, Path], Any]] = {
    "program": lambda module, _: exported(module),
    "strict": lambda module, _: exported(module, strict=True),
    "decomposed": lambda module, _: exported(module).run_decompositions(),
    "file": lambda module, folder: saved(exported(module), folder),
    "module of a program": lambda module, _: exported(module).module(check_guards=False),
    "symbolic": lambda module, _: torch.fx.symbolic_trace(module),
    "unflattened": lambda module, _: torch.export.unflatten(exported(module)),
}


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # PyTorch's own
@pytest.mark.parametrize("way", WAYS)
def test_marks_hold_in_what_others_traced(way: str, tmp_path: Path) -> None:
    module = Pinned().eval()
    given = WAYS[way](module, tmp_path)
    args: dict[str, Any] = {"args": (X,)} if isinstance(given, torch.nn.Module) else {}
    for placement, free in (("all-cpu", "cpu"), ("all-accelerator", "cuda:0")):
        planned = hetpart.partition(given, hardware=EMULATED, placement=placement, **args)
        found = {decision.op_type: decision.device for decision in planned.plan.decisions}
        assert {kind: found[kind] for kind in WANTED} == WANTED
        assert {device for kind, device in found.items() if kind not in WANTED} == {free}
        torch.testing.assert_close(planned.to_module(emulate=True)(X), module(X))
    assert not traceback.get_current_meta()


def test_a_mark_around_a_plan_is_outside_of_those_in_its_code() -> None:
    for module in (Pinned().eval(), torch.fx.symbolic_trace(Pinned().eval())):
        with hetpart.pin("cpu"):
            planned = hetpart.partition(module, args=(X,), hardware=EMULATED, placement="all-accelerator")
        found = {decision.op_type: decision.device for decision in planned.plan.decisions}
        assert found["Relu"] == "cpu"
        assert {kind: found[kind] for kind in WANTED} == WANTED


def test_a_graph_with_marks_is_left_as_it_was() -> None:
    module = torch.fx.symbolic_trace(Pinned().eval())
    before = [node.format_node() for node in module.graph.nodes]
    hetpart.partition(module, args=(X,), hardware=EMULATED)
    assert [node.format_node() for node in module.graph.nodes] == before


def test_threads_that_run_marked_code_leave_no_mark() -> None:
    """PyTorch's notes are those of the process."""

    def runs() -> None:
        for _ in range(500):
            module(X)

    module, interval = Pinned().eval(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(runs) for _ in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    assert not traceback.get_current_meta()
    assert not traceback.has_preserved_node_meta()
