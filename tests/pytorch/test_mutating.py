"""Custom operators that write to their arguments, against eager PyTorch, on both roads."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.library import custom_op

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidModelError

EMULATED = "emulated"
ROWS = torch.arange(12.0).reshape(4, 3)
REGISTERED = """
import torch

@torch.library.custom_op("hetpart_tests::grow", mutates_args={"x"})
def grow(x: torch.Tensor, by: float = 1.0) -> None:
    x.add_(by)
"""
exec(REGISTERED)  # another process imports the same code as a module
grow: Any = torch.ops.hetpart_tests.grow


@custom_op("hetpart_tests::halve", mutates_args={"x", "z"})
def halve(x: Tensor, y: Tensor, z: Tensor | None = None) -> Tensor:
    x.mul_(0.5)
    if z is not None:
        z.sub_(y)
    return x + y


@halve.register_fake
def _(x: Tensor, y: Tensor, z: Tensor | None = None) -> Tensor:
    del x, z
    return torch.empty_like(y)


@custom_op("hetpart_tests::grow_all", mutates_args={"xs"})
def grow_all(xs: list[Tensor]) -> None:
    for x in xs:
        x.add_(1)


def between(x: Tensor) -> Tensor:
    y = x * 2
    grow(y, 3.0)
    return y + x


def with_results(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x * 2, x * 3
    return halve(y, x), y, halve(y, x, z), z


def on_a_view(x: Tensor) -> Tensor:
    y = x * 2
    grow(y[1:3])
    y.mul_(3)
    return y


def on_an_argument(x: Tensor) -> Tensor:
    grow(x)
    return x * 3


class Called(nn.Module):
    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, x: Tensor) -> Any:
        return self.code(x)


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: Tensor) -> Any:
        grow(self.calls)
        return x + self.calls


@pytest.mark.parametrize("code", [between, with_results, on_a_view, on_an_argument])
def test_what_an_operator_writes_is_eager_pytorchs(code: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        changed = ROWS.clone()
        wanted = code(changed)
        planned = hetpart.partition(Called(code), args=(ROWS.clone(),), hardware=EMULATED)
        compiled = torch.compile(code, backend=backend, options={"hardware": EMULATED, "emulate": True})
        for run in (planned.to_module(emulate=True), planned.to_fx(), compiled):
            given = ROWS.clone()
            torch.testing.assert_close(run(given), wanted)
            torch.testing.assert_close(given, changed)


def test_a_buffer_that_an_operator_writes_to_counts_calls() -> None:
    torch._dynamo.reset()
    module, eager = Counted(), Counted()
    compiled = torch.compile(module, backend=backend, options={"hardware": EMULATED, "emulate": True})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(ROWS), eager(ROWS))
    with pytest.raises(InvalidModelError, match="changes the buffer 'calls'"):
        hetpart.partition(copy.deepcopy(eager), args=(ROWS,), hardware=EMULATED)


def wrote_to_a_list(x: Tensor) -> Tensor:
    y = x * 2
    grow_all([y])
    return y


def gave_it_twice(x: Tensor) -> Tensor:
    y = x * 2
    return halve(y, y[:])


@pytest.mark.parametrize(
    ("code", "why"), [(wrote_to_a_list, "tensors in a list"), (gave_it_twice, "one of them twice")]
)
def test_what_cannot_be_copied_is_refused(code: Callable[..., Any], why: str) -> None:
    with pytest.raises(InvalidModelError, match=rf"hetpart_tests\.\w+\.default, which writes to .*{why}"):
        hetpart.partition(Called(code), args=(ROWS,), hardware=EMULATED)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch deprecates what it calls itself
def test_a_program_in_which_pytorch_wrapped_it_is_refused() -> None:
    program = torch.export.export(Called(between), (ROWS,)).run_decompositions({})
    with pytest.raises(InvalidModelError, match=r"hetpart_tests\.grow\.default, .* run_decompositions wraps it"):
        hetpart.partition(program, hardware=EMULATED)


def test_a_bundle_calls_it_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "my_ops.py").write_text(REGISTERED)
    hetpart.partition(Called(between), args=(ROWS,), hardware=EMULATED).save(tmp_path / "m.hetpart")
    code = (
        "import my_ops, hetpart, numpy; run = hetpart.Session('m.hetpart', emulate=True);"
        "print(run.run(None, {'x': numpy.arange(12, dtype='f').reshape(4, 3)})[0].sum())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(between(ROWS.clone()).sum().item())], done.stderr
