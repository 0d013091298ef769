"""Programs that were exported before, in memory and in files: what their sizes are called, and that any goes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.export import Dim, ExportedProgram

import hetpart
from hetpart.cli import main

EMULATED = "emulated"


def exported(rows: Any) -> tuple[torch.nn.Module, ExportedProgram]:
    module = torch.nn.Linear(8, 8).eval()
    shapes = {"input": {0: rows, 1: Dim("length")}}
    return module, torch.export.export(module, (torch.ones(4, 5, 8),), dynamic_shapes=shapes)


def test_sizes_are_called_as_in_the_program_that_is_given() -> None:
    module, program = exported(Dim("rows", min=2, max=64))
    planned = hetpart.partition(program, hardware=EMULATED, shape="rows=?,length=3")
    assert planned.plan.inputs[0].shape == (None, 3, 8)
    assert set(hetpart.export(program).loaded.sizes) == {"rows", "length"}
    run = planned.to_module(emulate=True)
    for rows in (2, 7):
        x = torch.randn(rows, 3, 8)
        torch.testing.assert_close(run(x), module(x))


@pytest.mark.parametrize("rows", [Dim("rows"), 2 * Dim("half"), Dim.AUTO])
def test_a_file_may_have_sizes_of_every_form(rows: Any, tmp_path: Path) -> None:
    module, program = exported(rows)
    torch.export.save(program, tmp_path / "model.pt2")
    planned = hetpart.partition(tmp_path / "model.pt2", hardware=EMULATED)
    x = torch.randn(4, 5, 8)
    torch.testing.assert_close(planned.to_module(emulate=True)(x), module(x))


def test_a_size_that_is_a_part_of_another_is_bound_in_a_file_too(tmp_path: Path) -> None:
    module, program = exported(2 * Dim("half"))
    torch.export.save(program, tmp_path / "model.pt2")
    (name,) = hetpart.export(tmp_path / "model.pt2").loaded.sizes.keys() - {"input_dim1"}
    planned = hetpart.partition(tmp_path / "model.pt2", hardware=EMULATED, shape={name: 3})
    x = torch.randn(6, 5, 8)
    torch.testing.assert_close(planned.to_module(emulate=True)(x), module(x))


def test_a_file_without_weights_is_told_the_option_of_the_command_line(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = torch.nn.Linear(1024, 1024).eval()
        torch.export.save(torch.export.export(module, (torch.ones(1, 1024),)), tmp_path / "model.pt2")
    bundle = str(tmp_path / "model.hetpart")
    ended = CliRunner().invoke(main, ["partition", str(tmp_path / "model.pt2"), "--hardware", EMULATED, "-o", bundle])
    assert ended.exit_code
    assert "--weights FOLDER" in ended.stderr


def test_what_a_prompt_shows_is_one_line() -> None:
    _, program = exported(Dim("rows"))
    held = hetpart.export(program)
    assert repr(held).startswith("<ExportedModel 'Linear': ")
    assert repr(held).endswith(", rows=4, length=5>")
    planned = hetpart.partition(held, hardware=EMULATED, placement="all-cpu")
    shown, count = repr(planned), len(planned.plan.decisions)
    assert shown.startswith(f"<PartitionedModel 'Linear': {count} op")
    assert f"; cpu {count} op" in shown
    assert ", cuda:0 0 ops 0 B; " in shown
    assert "\n" not in shown
    assert len(shown) < 200
