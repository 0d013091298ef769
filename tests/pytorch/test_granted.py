"""What a plan takes for granted of open sizes is asked by every session of its bundle, as eager PyTorch branches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

import hetpart
from hetpart.errors import InvalidBundleError, InvalidFeedError, InvalidOptionError
from hetpart.graph.granted import Condition
from tests.pytorch.test_assumed import EMULATED, ROWS, Even, Flagged, Halves, Long, Plain, X


class Scaled(nn.Module):
    """Floats of a size, rounded both ways."""

    def forward(self, x: Tensor) -> Tensor:
        half = functional.interpolate(x.T[None], scale_factor=1.5)[0]
        return half.mean() + (x * 2 if x.shape[0] * 0.5 > 2.5 and min(x.shape[0], 9) > 6 else x)


class Alone(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] == 1 else x * 3


class Same(nn.Module):
    """Of two arguments that need not be as long."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if x.shape[0] == y.shape[0] else x - y[:1]


class Times(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * n if n % 3 == 0 else x - n


class Four(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * n if n == 4 else x - n


class Grows(nn.Module):
    """A state that grows by a row a run, and is read otherwise when it is long."""

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        present = torch.cat([past, x])
        return (present.sum(0) if present.shape[0] < 6 else present.mean(0)), present


@pytest.fixture(params=["partition", "cut", "native"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


def opened(folder: Path, module: Any, args: tuple[Any, ...], way: str = "partition", **options: Any) -> hetpart.Session:
    placement = "random:2" if way == "cut" else "optimal"
    planned = hetpart.partition(module, args=args, hardware=EMULATED, placement=placement, **options)
    path = planned.save(folder / "net.hetpart")
    return hetpart.Session(path, emulate=True, mode="native" if way == "native" else "partitions")


def answers(session: hetpart.Session, *given: Any) -> np.ndarray[Any, Any] | None:
    """What the session answers; ``None`` where it refuses."""
    feeds = {spec.name: np.asarray(value) for spec, value in zip(session.plan.inputs, given, strict=True)}
    try:
        return session.run(None, feeds)[0]
    except InvalidFeedError as error:
        if "the plan was made for calls where" not in error.message:
            raise
        return None


@pytest.mark.parametrize("module", [Even(), Long(), Halves(), Alone(), Scaled()], ids=lambda m: type(m).__name__)
def test_a_session_answers_as_eager_pytorch_or_refuses(module: nn.Module, way: str, tmp_path: Path) -> None:
    with opened(tmp_path, module, (X,), way, dynamic_shapes=ROWS, shape="rows=?") as session:
        made = {rows: answers(session, X.repeat(3, 1)[:rows]) for rows in range(1, 24)}
    assert made[8] is not None
    for rows, answer in made.items():
        expected = module(X.repeat(3, 1)[:rows])
        assert answer is None or torch.allclose(torch.from_numpy(answer), expected), rows
    assert 1 < sum(answer is not None for answer in made.values()) < len(made)


@pytest.mark.parametrize("sizes", [{0: "rows"}, {0: Dim.AUTO}, {0: 2 * Dim("half")}], ids=["name", "auto", "half"])
def test_sizes_that_the_code_compares_are_compared(sizes: Any, tmp_path: Path) -> None:
    given = {"x": sizes, "y": sizes}
    names = ("rows", "x_dim0", "half")
    exported = hetpart.export(Same(), args=(X, X), dynamic_shapes=given)
    (name,) = (name for name in names if name in exported.loaded.sizes)
    with opened(tmp_path, exported, (), shape={name: "?"}) as session:
        for rows, others in ((8, 8), (4, 4), (8, 1), (2, 6), (4, 2)):
            x, y = X[:rows], X[:others]
            answer = answers(session, x, y)
            assert (answer is not None) == (rows == others), (rows, others)
            assert answer is None or torch.equal(torch.from_numpy(answer), Same()(x, y))
        for rows in (3, 5) if name == "half" else ():
            assert answers(session, X[:rows], X[:rows]) is None


@pytest.mark.parametrize(("module", "number"), [(Times(), 6), (Four(), 4)])
def test_numbers_for_which_the_code_goes_another_way_are_refused(
    module: nn.Module, number: int, tmp_path: Path
) -> None:
    with opened(tmp_path, module, (X, number), dynamic_shapes={"x": {}, "n": Dim.AUTO}) as session:
        made = {n: answers(session, X, n) for n in range(1, 13)}
        assert made[number] is not None
        for n, answer in made.items():
            assert answer is None or torch.equal(torch.from_numpy(answer), module(X, n))
        assert None in made.values()


def test_a_size_beyond_what_the_user_exported_for_is_refused(tmp_path: Path) -> None:
    sizes = {"x": {0: Dim("rows", min=4, max=8)}}
    with opened(tmp_path, Plain(), (X,), dynamic_shapes=sizes, shape="rows=?") as session:
        made = {rows: answers(session, X.repeat(2, 1)[:rows]) for rows in range(3, 10)}
    assert [rows for rows, answer in made.items() if answer is not None] == [4, 5, 6, 7, 8]


def test_a_size_that_was_fixed_to_export_at_all_is_no_other_in_a_run(tmp_path: Path) -> None:
    sizes = {"x": {0: "rows", 1: "columns"}}
    with opened(tmp_path, Flagged(), (X,), dynamic_shapes=sizes, shape="rows=1,columns=?") as session:
        answer = answers(session, X[:1])
        assert answer is not None
        assert torch.allclose(torch.from_numpy(answer), Flagged()(X[:1]))
        wide = torch.ones(1, 5)
        other = answers(session, wide)
        assert other is None or torch.allclose(torch.from_numpy(other), Flagged()(wide))


def test_every_call_asks(tmp_path: Path) -> None:
    with opened(tmp_path, Even(), (X,), dynamic_shapes=ROWS, shape="rows=?") as session:
        (name,) = (spec.name for spec in session.plan.inputs)
        odd = onnxruntime.OrtValue.ortvalue_from_numpy(X[:5].numpy())
        with pytest.raises(InvalidFeedError, match="rows is 5"):
            session.run_with_ort_values(None, {name: odd})
        binding = session.io_binding()
        binding.bind_ortvalue_input(name, odd)
        binding.bind_output(session.get_outputs()[0].name)
        with pytest.raises(InvalidFeedError, match="rows is 5"):
            session.run_with_iobinding(binding)
        with pytest.raises(InvalidFeedError, match="rows is 5"):
            session.run_async(None, {name: X[:5]}, lambda *_: None)
        told, results = Event(), list[Any]()

        def tell(made: list[Any], *_: Any) -> None:
            results.extend(made)
            told.set()

        session.run_async(None, {name: X[:6]}, tell)
        assert told.wait(60)
        assert torch.equal(torch.from_numpy(results[0]), Even()(X[:6]))


def test_states_that_grow_are_asked_in_every_run(tmp_path: Path) -> None:
    args = (torch.ones(1, 3), torch.ones(2, 3))
    shapes = {"x": {}, "past": {0: "length"}}
    planned = hetpart.partition(Grows(), args=args, dynamic_shapes=shapes, shape="length=?", hardware=EMULATED)
    returned = planned.plan.outputs[1].name
    path = planned.save(tmp_path / "net.hetpart")
    past = torch.ones(2, 3)
    with hetpart.Session(path, emulate=True, state={"past": returned}) as session:
        session.state()["past"] = past.numpy()
        for _ in range(3):
            (answer,) = session.run(None, {"x": args[0].numpy()})
            expected, past = Grows()(args[0], past)
            assert torch.equal(torch.from_numpy(answer), expected)
        with pytest.raises(InvalidFeedError, match="length is 5"):
            session.run(None, {"x": args[0].numpy()})
        assert session.state()["past"].shape == (5, 3)
        with pytest.raises(InvalidFeedError, match="length is 7"):
            session.run(None, {"x": args[0].numpy(), "past": np.ones((7, 3), np.float32)})


def test_the_pieces_for_pytorch_ask_too() -> None:
    planned = hetpart.partition(Even(), args=(X,), dynamic_shapes=ROWS, shape="rows=4", hardware=EMULATED)
    module = planned.to_fx({"cuda:0": "cpu"})
    assert torch.equal(module(X[:4]), Even()(X[:4]))
    assert torch.equal(module(X[:6]), Even()(X[:6]))
    with pytest.raises(InvalidFeedError, match="rows is 5"):
        module(X[:5])
    module.graph.eliminate_dead_code()
    module.recompile()
    with pytest.raises(InvalidFeedError, match="rows is 5"):
        module(X[:5])


def test_the_bundle_says_what_it_takes_for_granted(tmp_path: Path) -> None:
    path = tmp_path / "net.hetpart"
    with opened(tmp_path, Even(), (X,), dynamic_shapes=ROWS, shape="rows=?"):
        written = json.loads((path / "plan.json").read_text())
    assert written["granted"]["conditions"] == ["(rows % 2) == 0"]
    assert any("(rows % 2) == 0" in note for note in written["notes"])
    done = subprocess.run(
        [sys.executable, "-m", "hetpart", "run", path, "--random", "--emulate"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written["granted"]["conditions"] = ["__import__('os').getcwd() == 0"]
    (path / "plan.json").write_text(json.dumps(written))
    with pytest.raises(InvalidBundleError, match="__import__"):
        hetpart.Session(path, emulate=True)


@pytest.mark.parametrize(
    "text", ["rows", "(rows % 2) == 0 and not rows // 3 > 1", "math.floor(rows / 2) < max(3, float(rows) * 0.5)"]
)
def test_what_may_be_asked(text: str) -> None:
    for rows in range(9):
        expected = eval(text, {"math": __import__("math")}, {"rows": rows})
        assert Condition.read(text).holds({"rows": rows}) == bool(expected)
    assert Condition.read(text).names == {"rows"}


@pytest.mark.parametrize(
    "text",
    ["rows.real", "[rows][0]", "().__class__", "exit()", "math.pow(rows, 9)", "9**9**9", "'a' < 'b'",
     "1 if rows else 2", "(lambda: 1)()", "max(*rows)", "round(rows, ndigits=2)", "rows; rows", "",
     "x := 3", "math.__loader__"],
)  # fmt: skip
def test_what_may_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"condition|which none may have"):
        Condition.read(text)


class Unasked(nn.Module):
    """It branches by how many rows are kept, which no argument tells; the trace takes it for granted."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if (3 ** x.shape[0]) % 5 == 1 else x * 3


def test_what_a_run_cannot_be_asked_is_refused_when_it_is_planned() -> None:
    with pytest.raises(InvalidOptionError, match="which a run cannot be asked"):
        hetpart.partition(Unasked(), args=(X,), dynamic_shapes=ROWS, shape="rows=?", hardware=EMULATED)


class Squares(nn.Module):
    """By two sizes that it has twice of each."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] * x.shape[1] == 24 else x * 3


@pytest.mark.parametrize("sizes", [{"half": 3, "other": 2}, {"half": 2, "other": 3}, {"half": 1, "other": 5}])
def test_sizes_that_no_axis_has_by_itself_are_told_by_shape(sizes: dict[str, int]) -> None:
    shapes = {"x": {0: 2 * Dim("half"), 1: 2 * Dim("other")}}
    planned = hetpart.partition(
        Squares(), args=(torch.ones(8, 6),), dynamic_shapes=shapes, shape=sizes, hardware=EMULATED
    )
    x = torch.randn(2 * sizes["half"], 2 * sizes["other"])
    torch.testing.assert_close(planned.to_module(emulate=True)(x), Squares()(x))
