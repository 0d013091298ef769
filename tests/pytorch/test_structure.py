# pyright: reportUnknownMemberType=false
"""What goes into a call and comes out of it, and what is said where that cannot be."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import hetpart
from hetpart.errors import InvalidFeedError, InvalidModelError
from hetpart.frontend.said import quiet
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"


class Parts(torch.nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"sum": given["a"] + given["b"], "list": [given["b"] * 2]}


A, B = torch.arange(3.0), torch.ones(3)


def test_entries_of_a_dict_are_told_by_their_keys() -> None:
    run = hetpart.partition(Parts(), args=({"a": A, "b": B},), hardware=EMULATED).to_module(emulate=True)
    assert_equal(run({"b": B, "a": A}), Parts()({"a": A, "b": B}))
    with pytest.raises(InvalidFeedError, match="a dict with 'a', 'c' in the place of a dict with 'a', 'b'"):
        run({"a": A, "c": B})


def test_what_a_graph_module_returns_can_be_written_to() -> None:
    traced = torch.fx.symbolic_trace(Parts())
    run = hetpart.partition(traced, args=({"a": A, "b": B},), hardware=EMULATED).to_module(emulate=True)
    made = run({"a": A, "b": B})
    assert (type(made), type(made["list"])) == (dict, list)
    assert_equal(made, Parts()({"a": A, "b": B}))


class Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> None:
        x.sum()


class Told(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_what_returns_nothing_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="Nothing returns no tensor"):
        hetpart.partition(Nothing(), args=(A,), hardware=EMULATED)


def test_a_refusal_prints_no_graph(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidModelError, match="refuses Told"):
        hetpart.partition(Told(), args=(A,), hardware=EMULATED)
    assert capfd.readouterr() == ("", "")


@torch.library.custom_op("hetpart_tests::own", mutates_args=())
def own(x: torch.Tensor) -> torch.Tensor:
    """An operator of the user's."""
    return x + 1


@own.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Own(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return own(x)


def test_of_an_operator_of_the_users_lint_says_who_runs_it() -> None:
    (found,) = hetpart.lint(Own(), args=(A,), hardware=EMULATED, select="HPC001")
    assert "hetpart_tests.own.default" in found.message
    assert "PyTorch runs it" in found.hint


def test_others_hear_what_pytorch_says(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidModelError, match="refuses Told"):
        hetpart.partition(Told(), args=(A,), hardware=EMULATED)
    with pytest.raises(Exception, match="data-dependent"):
        torch.export.export(Told(), (A,))
    assert "def forward" in capfd.readouterr().err


def test_who_hides_what_pytorch_says_leaves_it_as_it_was() -> None:
    """Whoever ends first, as two threads that export."""
    logger = logging.getLogger("torch.onnx")
    before, filters = logger.level, list(warnings.filters)
    first, second = quiet(), quiet()
    first.__enter__()
    second.__enter__()
    assert logger.level == logging.ERROR
    first.__exit__(None, None, None)
    assert logger.level == logging.ERROR
    second.__exit__(None, None, None)
    assert (logger.level, list(warnings.filters)) == (before, filters)


@dataclass
class Pair:
    a: torch.Tensor
    more: dict[str, torch.Tensor]


class Swapping(torch.nn.Module):
    def forward(self, given: Pair) -> Pair:
        return Pair(given.more["b"] * 2, {"c": given.a + given.more["c"]})


def test_a_dataclass_is_taken_and_returned_once_it_is_registered() -> None:
    torch.export.register_dataclass(Pair)
    given, other = Pair(A, {"b": B, "c": A * 2}), Pair(A, {"c": A * 2, "b": B})
    run = hetpart.partition(Swapping(), args=(given,), hardware=EMULATED).to_module(emulate=True)
    made = run(other)
    assert type(made) is Pair
    assert_equal(pytree.tree_leaves(made), pytree.tree_leaves(Swapping()(given)))


@dataclass
class Unregistered:
    a: torch.Tensor


class Wrapping(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Unregistered:
        return Unregistered(x * 2)


class Quantising(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Wrapping(), "torch.export.register_dataclass"),
        (Quantising(), "makes tensors of torch.qint8"),
    ],
)
def test_a_refusal_says_what_to_do(module: torch.nn.Module, words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        hetpart.partition(module, args=(A,), hardware=EMULATED)
