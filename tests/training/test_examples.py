# pyright: reportUnknownMemberType=false
"""Saved steps that run without being given anything: what is made up is what they begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

import hetpart
from hetpart.cli import main
from hetpart.errors import InvalidFeedError, InvalidModelError
from hetpart.graph.notes import EXAMPLES
from hetpart.runtime.random_feeds import random_feeds
from hetpart.training import Adagrad, AdamW, Group, Groups, LazyAdam, SparseFTRL
from hetpart.training.compiled import Running, capture, place
from hetpart.training.rules import Rules

ROWS, WIDTH, BAGS = 60, 8, 4
TABLES = Groups(
    AdamW(1e-3), (Group("table.*", LazyAdam(1e-2)), Group("bags.*", SparseFTRL(0.1, initial_accumulator=0.5)))
)


class Clicks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.bags = nn.Embedding(ROWS, WIDTH), nn.EmbeddingBag(ROWS, WIDTH, mode="sum")
        self.out = nn.Linear(2 * WIDTH, 3)

    def forward(self, ids: Tensor, bag: Tensor, offsets: Tensor) -> Tensor:
        return self.out(torch.cat((self.table(ids), self.bags(bag, offsets)), 1))


def loss(model: nn.Module, *batch: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(*batch[:3]), batch[3])


BATCH = torch.arange(BAGS), torch.arange(3 * BAGS), torch.arange(BAGS) * 3, torch.arange(BAGS) % 3


def saved(folder: Path, optimizer: Any, rules: Rules, *, at: int = 0) -> Path:
    """A step that lies in ``folder``, and what it is given in call ``at``."""
    torch.manual_seed(0)
    made = capture(Clicks(), loss, optimizer=optimizer, example_batch=BATCH, rules=rules)
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    for _ in range(at):
        step(*BATCH)
    step.save(folder / "step.onnx", *BATCH)
    return folder / "step.onnx"


WHOLE, MIXED = Adagrad(0.1, initial_accumulator=0.25), Rules("fp16", accumulate=2, clip_norm=1.0)


@pytest.mark.parametrize(
    ("optimizer", "rules"),
    [(TABLES, Rules()), (TABLES, MIXED), (WHOLE, Rules(accumulate=3)), (WHOLE, MIXED)],
    ids=["tables", "tables, mixed", "whole, in parts", "whole, mixed"],
)
def test_made_up_inputs_are_right_for_a_step(optimizer: Any, rules: Rules, tmp_path: Path) -> None:
    model = saved(tmp_path, optimizer, rules)
    bundle = tmp_path / "step.hetpart"
    hetpart.partition(model, hardware="emulated").save(bundle)
    for more in ((), ("--seed", "7", "--repeat", "3")):
        ran = CliRunner().invoke(main, ["run", str(bundle), "--emulate", "--random", *more])
        assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize(("optimizer", "at"), [(TABLES, 0), (AdamW(1e-3), 2)], ids=["tables", "whole"])
def test_made_up_states_are_those_before_the_first_update(optimizer: Any, at: int, tmp_path: Path) -> None:
    """As the step itself gives them: of tables before the first call, else in the one that makes the update."""
    from safetensors.numpy import load_file

    model = saved(tmp_path, optimizer, Rules(accumulate=3), at=at)
    given = load_file(model.with_suffix(".safetensors"))
    made = hetpart.partition(model, hardware="emulated")
    found = random_feeds(made.plan.inputs, 0, told=made.plan.examples)
    compared = [name for name in made.plan.examples if name in given and not name.startswith("collected")]
    assert {"progress"} < set(compared)
    for name in compared:
        np.testing.assert_array_equal(found[name], given[name], err_msg=name)


def test_an_update_below_the_first_is_refused(tmp_path: Path) -> None:
    model = saved(tmp_path, TABLES, Rules())
    made = hetpart.partition(model, hardware="emulated")
    feeds = random_feeds(made.plan.inputs, 0, told=made.plan.examples)
    made.save(tmp_path / "step.hetpart")
    with (
        hetpart.Session(tmp_path / "step.hetpart", emulate=True) as session,
        pytest.raises(InvalidFeedError, match="an update cannot be number 0"),
    ):
        session.run(None, feeds | {"progress": np.array([0.0, 1.0, 1.0, 0.0])})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("plain"), AdamW(1e-3), Rules())


@pytest.mark.parametrize("text", ["3", "[1]", '{"x": []}', '{"x": ["a"]}', '{"x": 1}', "{"])
def test_what_is_no_example_is_refused(text: str, plain: Path) -> None:
    import onnx

    model = onnx.load(plain)
    (note,) = [entry for entry in model.metadata_props if entry.key == EXAMPLES]
    note.value = text
    with pytest.raises(InvalidModelError, match=EXAMPLES):
        hetpart.partition(model, hardware="emulated")
