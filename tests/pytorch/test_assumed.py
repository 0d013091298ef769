"""Plans for other sizes than those of the example, where the code or its parts go another way for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidFeedError, InvalidOptionError
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"
ROWS = {"x": {0: "rows"}}
X = torch.arange(24.0).reshape(8, 3)


class Even(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] % 2 == 0 else x * 3


class Long(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 5 else x * 3


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(x.shape[0] // 4):
            x = x * 2
        return x


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Windows(nn.Module):
    """Its windows are laid when the program is taken apart: of a size that was twice another."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return functional.adaptive_avg_pool2d(x[None], (2, 1)), x.diagonal()


def ran(model: Any, x: Tensor, **options: Any) -> Any:
    planned = hetpart.partition(model, hardware=EMULATED, **options)
    with torch.no_grad():
        return planned.to_module(emulate=True)(x)


@pytest.mark.parametrize("module", [Even(), Long(), Halves(), Windows()], ids=lambda module: type(module).__name__)
def test_a_module_goes_the_way_of_the_size_that_is_planned(module: nn.Module) -> None:
    exported = hetpart.export(module, args=(X,), dynamic_shapes=ROWS)
    for rows in (8, 3, 1):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        assert_equal(ran(exported, x, shape={"rows": rows}), module(x))


def test_parts_go_the_way_of_the_size_that_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    from hetpart.frontend import staying

    kept = {target: when for target, when in staying.KEPT.items() if "adaptive" not in str(target)}
    monkeypatch.setattr("hetpart.frontend.kept.KEPT", kept)
    x = torch.arange(33.0).reshape(11, 3)
    assert_equal(ran(Windows(), x, args=(X,), dynamic_shapes=ROWS, shape={"rows": 11}), Windows()(x))
    program = torch.export.export(Windows(), (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert_equal(ran(program, x, shape={"x_dim0": 11}), Windows()(x))


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize(
    ("module", "said"),
    [(Even(), r"\(x_dim0 % 2\) == 0"), (Halves(), r"\(x_dim0 // 4\) == 2"), (Long(), "for sizes at least 6")],
)
def test_a_program_that_went_another_way_is_refused(
    module: nn.Module, said: str, in_file: bool, tmp_path: Path
) -> None:
    program: Any = torch.export.export(module, (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    if in_file:
        torch.export.save(program, tmp_path / "net.pt2")
        program = tmp_path / "net.pt2"
    assert_equal(ran(program, X), module(X))
    with pytest.raises(InvalidOptionError, match=said):
        hetpart.partition(program, hardware=EMULATED, shape={"x_dim0": 3})


class Chooses(nn.Module):
    """One branch is PyTorch's alone."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 4, lambda a: torch.special.erfcx(a) + 1, lambda a: a * 2, (x,))


def test_a_branch_that_a_size_decides_may_be_pytorchs() -> None:
    program = torch.export.export(Chooses(), (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    exported = hetpart.export(Chooses(), args=(X,), dynamic_shapes=ROWS)
    for rows in (8, 6, 3, 8):
        x = torch.arange(3.0 * rows).reshape(rows, 3)
        assert_equal(ran(exported, x, shape={"rows": rows}), Chooses()(x))
        assert_equal(ran(program, x, shape={"x_dim0": rows}), Chooses()(x))


class Times(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * n if n % 2 == 0 else x - n


def test_a_number_for_which_the_code_goes_another_way_is_refused() -> None:
    planned = hetpart.partition(Times(), args=(X, 4), dynamic_shapes=(None, Dim.DYNAMIC), hardware=EMULATED)
    module = planned.to_module(emulate=True)
    assert_equal(module(X, 6), X * 6)
    with pytest.raises(InvalidFeedError, match=r"where \(n % 2\) == 0, and in this one n is 5"):
        module(X, 5)


def test_an_open_size_for_which_the_code_goes_another_way_is_refused() -> None:
    planned = hetpart.partition(Even(), args=(X,), dynamic_shapes=ROWS, shape="rows=?", hardware=EMULATED)
    module = planned.to_module(emulate=True)
    assert_equal(module(X[:6]), X[:6] * 2)
    with pytest.raises(InvalidFeedError, match="rows is 5"):
        module(X[:5])


@pytest.mark.parametrize(("shape", "rows"), [({}, 8), ({"half": 3}, 6)])
def test_a_size_may_be_a_multiple_of_a_dimension(shape: Any, rows: int) -> None:
    sizes = {"x": {0: 2 * Dim("half")}}
    graph = hetpart.load(Plain(), args=(X,), dynamic_shapes=sizes, shape=shape)
    assert [graph.values[value].shape for value in graph.inputs] == [(rows, 3)]


@pytest.mark.parametrize("size", [0, 1, 9])
def test_the_least_size_of_a_dimension_is_what_the_user_says(size: int) -> None:
    sizes = {"x": {0: Dim("rows", min=2, max=8)}}
    with pytest.raises(InvalidOptionError, match=f"'rows' cannot be {size}: .* for sizes from 2 to 8"):
        hetpart.load(Plain(), args=(X,), dynamic_shapes=sizes, shape={"rows": size})


def test_nothing_of_what_a_file_says_of_its_sizes_is_run(tmp_path: Path) -> None:
    program: Any = torch.export.export(Even(), (X,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    made = tmp_path / "made"
    program._guards_code.append(f"__import__('pathlib').Path({str(made)!r}).touch() is None")
    torch.export.save(program, tmp_path / "net.pt2")
    program = torch.export.load(tmp_path / "net.pt2")
    assert any(str(made) in code for code in program._guards_code)
    assert_equal(ran(tmp_path / "net.pt2", X), Even()(X))
    assert not made.exists()


class Flagged(nn.Module):
    """At one row it has a symbol where PyTorch wants a truth value."""

    def forward(self, x: Tensor) -> Tensor:
        causal: Any = x.shape[0] > 1 and bool(x.shape[1])
        return functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=causal)


def test_code_that_is_refused_for_any_size_is_planned_for_the_one_that_is_asked_for() -> None:
    planned = hetpart.partition(Flagged(), args=(X,), dynamic_shapes=ROWS, shape={"rows": 1}, hardware=EMULATED)
    assert dict(planned.graph.dimensions) == {"rows": 1}
    with torch.no_grad():
        assert_equal(planned.to_module(emulate=True)(X[:1]), Flagged()(X[:1]))


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        made = self.linear(x.exp())
        return made - made.mean(-1, keepdim=True)


@pytest.mark.parametrize("sizes", [{"rows": 0}, {"batch": 0}, {"rows": 0, "batch": 0}, {"rows": "?"}])
def test_any_size_may_be_0(sizes: dict[str, Any]) -> None:
    """Not the first alone: ONNX Runtime's fusion of a product and a sum takes another 0 for the first size."""
    model, x = Rows(), torch.ones(4, 5, 3)
    axes = {"x": {0: "batch", 1: "rows"}}
    planned = hetpart.partition(model, args=(x,), dynamic_shapes=axes, shape=sizes, hardware=EMULATED)
    given = torch.ones(sizes.get("batch", 4), 0 if "rows" in sizes else 5, 3)
    with torch.no_grad():
        assert_equal(planned.to_module(emulate=True)(given), model(given))


class Attending(nn.Module):
    """As an encoder of text has it: positions out of a table, and a mask over what is attended to."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Embedding(9, 8)
        self.register_buffer("places", torch.arange(9)[None], persistent=False)
        self.mixed = nn.Linear(8, 24)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.positions(self.places[:, : x.shape[1]])
        query, key, value = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.mixed(x).split(8, dim=-1))
        made = functional.scaled_dot_product_attention(query, key, value, mask[:, None, None].bool())
        return made.transpose(1, 2).reshape(x.shape)


def test_attention_of_open_sizes_runs_for_one_row_and_for_all_positions_there_are() -> None:
    """Neither what attention is taken apart in nor how often PyTorch asks the guards makes conditions."""
    module, sizes = Attending().eval(), {0: "b", 1: "l"}

    def called(batch: int, length: int) -> tuple[Tensor, Tensor]:
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1, length // 2 + 1 :] = 0
        return torch.linspace(-1, 1, batch * length * 8).sin().reshape(batch, length, 8), mask

    planned = hetpart.partition(
        module, args=called(2, 7), dynamic_shapes=(sizes, sizes), shape="b=?,l=?", hardware=EMULATED,
        placement="random:1",
    )  # fmt: skip
    run = planned.to_module(emulate=True)
    with torch.no_grad():
        for batch, length in ((2, 7), (1, 7), (3, 9), (1, 9), (1, 2), (4, 2)):
            example = called(batch, length)
            assert_equal(run(*example), module(*example))
