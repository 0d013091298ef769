# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
"""Checkpoints of a step: in parts or whole, resumed, killed, and read by PyTorch and its distributed checkpoint."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.distributed import checkpoint as distributed
from torch.distributed.checkpoint import HuggingFaceStorageReader

from hetpart.errors import InvalidFeedError, InvalidOptionError
from hetpart.training import AdamW
from hetpart.training.checkpoint import Part, load, merge, save
from hetpart.training.checkpoint.layout import INCOMPLETE
from hetpart.training.compiled import CapturedStep, Running, capture, place
from hetpart.training.step import Step

PLACEMENTS = ("all-accelerator", "random:1")
WIDTH, WORDS = 8, 20


class Words(nn.Module):
    """Dropout, running statistics, a tied output layer, and a layer that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(requires_grad=False)
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3), nn.ReLU())
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.frozen(self.table(ids)) * self.scale))


def loss_of(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(ids), labels)


def words() -> Words:
    torch.manual_seed(3)
    return Words()


@cache
def captured() -> CapturedStep:
    return capture(words(), loss_of, optimizer=AdamW(lr=1e-2), example_batch=batch_of(0))


def batch_of(number: int) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(number)
    ids, labels = torch.randint(0, WORDS, (2, 12), generator=drawn)
    return ids, labels


def placed(placement: str = "random:1", seed: int = 5) -> Step:
    running = Running(emulate=True, threads=1, overlap=False)
    return place(captured(), running=running, hardware="emulated", placement=placement, seed=seed)


def losses_of(step: Step, count: int) -> list[float]:
    return [step(*batch_of(step.steps)).item() for _ in range(count)]


@cache
def uninterrupted(placement: str = "random:1", count: int = 100) -> list[float]:
    return losses_of(placed(placement), count)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("integrated", [True, False])
def test_a_step_with_dropout_goes_on_at_fifty_bit_for_bit(placement: str, integrated: bool, tmp_path: Path) -> None:
    first = placed(placement)
    assert losses_of(first, 50) == uninterrupted(placement)[:50]
    first.save_checkpoint(tmp_path, integrated=integrated)
    second = placed(placement, seed=99)  # what a dropout keeps is the checkpoint's to say
    second.load_checkpoint(tmp_path)
    assert losses_of(second, 50) == uninterrupted(placement)[50:]


def test_parts_are_those_of_devices_and_are_merged(tmp_path: Path) -> None:
    step = placed("random:1")
    losses_of(step, 2)
    home = step.save_checkpoint(tmp_path, integrated=False)
    files = sorted(home.glob("*.safetensors"))
    assert [file.name for file in files] == [Part(1, 2).file_name, Part(2, 2).file_name]
    devices = step.session.state().devices
    given = {state.name: state.given for state in captured().program.states}
    for file, device in zip(files, ("cpu", "cuda:0"), strict=True):
        assert {devices[given[name]] for name in load_file(file) if name in given} == {device}
    merge(tmp_path)
    (whole,) = home.glob("*.safetensors")
    kept = step.state_dict()["tensors"]
    assert {name for name, tensor in load_file(whole).items() if name in kept and torch.equal(tensor, kept[name])} == {
        *kept
    }
    other = placed("all-accelerator")
    other.load_checkpoint(tmp_path)
    assert losses_of(other, 3) == pytest.approx(uninterrupted()[2:5], rel=1e-5)


def test_processes_write_a_share_each(tmp_path: Path) -> None:
    step = placed()
    losses_of(step, 3)
    for index in (3, 1, 2):
        home = step.save_checkpoint(tmp_path, part=Part(index, 3))
    sizes = [file.stat().st_size for file in home.glob("*.safetensors")]
    assert len(sizes) == 3
    assert max(sizes) < 2 * min(sizes)
    step.load_checkpoint(tmp_path)
    assert losses_of(step, 5) == uninterrupted()[3:8]


def test_a_share_that_another_run_left_is_not_mixed_in(tmp_path: Path) -> None:
    killed, resumed = placed(seed=1), placed(seed=2)
    for step in (killed, resumed):
        losses_of(step, 3)
    killed.save_checkpoint(tmp_path, part=Part(2, 2))
    resumed.save_checkpoint(tmp_path, part=Part(1, 2))
    assert not list(tmp_path.glob("step-????????"))
    resumed.save_checkpoint(tmp_path, part=Part(2, 2))
    assert torch.equal(load(tmp_path).tensor("table.weight"), resumed.state_dict()["tensors"]["table.weight"])


def test_all_parts_of_a_save_that_was_killed_are_written_anew(tmp_path: Path) -> None:
    killed, resumed = placed(seed=1), placed(seed=2)
    for step in (killed, resumed):
        losses_of(step, 2)
    left = killed.save_checkpoint(tmp_path, integrated=False)
    left.rename(left.with_name(f"{left.name}{INCOMPLETE}"))
    assert len(list(left.parent.rglob("*.safetensors"))) > 1
    home = resumed.save_checkpoint(tmp_path, integrated=False)
    saved = load(home.parent)
    for name, tensor in resumed.state_dict()["tensors"].items():
        assert torch.equal(saved.tensor(name), tensor), name
    assert list(tmp_path.glob("step-*")) == [home]


class Normed(nn.Sequential):
    """So many counts of batches that they are its smallest states, and equal in every run."""

    def __init__(self) -> None:
        blocks = [part for _ in range(9) for part in (nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))]
        super().__init__(*blocks, nn.Linear(WIDTH, 3))


@cache
def captured_normed() -> CapturedStep:
    batch = torch.zeros(16, WIDTH), torch.arange(16) % 3
    return capture(Normed(), loss_of, optimizer=AdamW(lr=1e-2), example_batch=batch)


def normed(rows: int) -> Step:
    """After one update, of rows that are drawn."""
    running = Running(emulate=True, threads=1)
    step = place(captured_normed(), running=running, hardware="emulated", placement="random:1")
    torch.manual_seed(rows)
    step(torch.randn(16, WIDTH), torch.arange(16) % 3)
    return step


def test_what_counts_alike_in_two_runs_does_not_mix_their_parts(tmp_path: Path) -> None:
    killed, resumed = normed(1), normed(2)
    killed.save_checkpoint(tmp_path, part=Part(1, 2))
    resumed.save_checkpoint(tmp_path, part=Part(2, 2))
    assert not list(tmp_path.glob("step-????????"))
    resumed.save_checkpoint(tmp_path, part=Part(1, 2))
    saved, kept = load(tmp_path), resumed.state_dict()["tensors"]
    assert not [name for name, tensor in kept.items() if not torch.equal(saved.tensor(name), tensor)]


def test_so_many_checkpoints_are_kept(tmp_path: Path) -> None:
    step = placed()
    for integrated in (True, False, True, False):
        losses_of(step, 1)
        step.save_checkpoint(tmp_path, keep_max=2, integrated=integrated)
    assert sorted(entry.name for entry in tmp_path.glob("step-*")) == ["step-00000003", "step-00000004"]
    step.load_checkpoint(tmp_path, 3)
    assert losses_of(step, 2) == uninterrupted()[3:5]


def test_the_plain_model_loads_it_and_goes_on(tmp_path: Path) -> None:
    """Every name of its ``state_dict`` is there, of what is tied and of what is not trained too."""
    step, plain, synced = placed(), words(), copy.deepcopy(words())
    losses_of(step, 10)
    step.save_checkpoint(tmp_path)
    plain.load_state_dict(load(tmp_path).state_dict(), strict=True)
    step.sync_to(synced)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, synced.state_dict()[name]), name
    assert not torch.equal(plain.table.weight, words().table.weight)
    assert plain.head.weight is plain.table.weight
    evaluated = nn.functional.cross_entropy(plain.eval()(batch_of(0)[0]), batch_of(0)[1])
    assert evaluated.item() < uninterrupted()[0]


class Unlisted(nn.Module):
    """A mean that no ``state_dict`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        self.get_buffer("mean").lerp_(made.mean(0).detach(), 0.5)
        return made - self.get_buffer("mean")


@pytest.mark.parametrize("integrated", [True, False])
def test_a_buffer_that_is_not_persistent_is_kept_and_no_plain_model_is_given_it(
    integrated: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, batch = Unlisted(), (torch.randn(3, 4),)
    made = capture(model, lambda model, x: model(x).square().mean(), optimizer=AdamW(), example_batch=batch)
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    step(*batch)
    step.save_checkpoint(tmp_path, integrated=integrated)
    rest = [step(*batch).item() for _ in range(3)]
    step.load_checkpoint(tmp_path)
    assert [step(*batch).item() for _ in range(3)] == rest
    Unlisted().load_state_dict(load(merge(tmp_path).parent).state_dict(), strict=True)


def test_pytorchs_distributed_checkpoint_reads_and_writes_what_a_step_keeps(tmp_path: Path) -> None:
    step, plain = placed(), words()
    losses_of(step, 4)
    home = step.save_checkpoint(tmp_path / "ours", integrated=False)
    into = {name: torch.zeros_like(tensor) for name, tensor in plain.state_dict().items() if name != "head.weight"}
    with pytest.warns(UserWarning, match="in a single process"):
        distributed.load(into, storage_reader=HuggingFaceStorageReader(str(home)), no_dist=True)
    plain.load_state_dict(into | {"head.weight": into["table.weight"]})
    content = step.state_dict()
    assert torch.equal(plain.table.weight, content["tensors"]["table.weight"])
    with pytest.warns(UserWarning, match="in a single process"):
        distributed.save(content, checkpoint_id=tmp_path / "theirs", no_dist=True)
    losses_of(step, 2)
    read = step.state_dict() | {"step": 0}
    with pytest.warns(UserWarning, match="in a single process"):
        distributed.load(read, checkpoint_id=tmp_path / "theirs", no_dist=True)
    step.load_state_dict(read)
    assert losses_of(step, 4) == uninterrupted()[4:8]


@pytest.mark.parametrize("integrated", [True, False])
def test_pytorchs_distributed_checkpoint_reads_every_tensor_of_a_tied_model_once(
    integrated: bool, tmp_path: Path
) -> None:
    step, plain = placed(), words()
    losses_of(step, 2)
    home = step.save_checkpoint(tmp_path, integrated=integrated)
    distinct = {**dict(plain.named_parameters()), **dict(plain.named_buffers())}
    assert "head.weight" not in distinct
    with pytest.warns(UserWarning, match="in a single process"):
        distributed.load(distinct, storage_reader=HuggingFaceStorageReader(str(home)), no_dist=True)
    synced = words()
    step.sync_to(synced)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, synced.state_dict()[name]), name


def other_model() -> nn.Module:
    model = words()
    model.layers[0] = nn.Linear(WIDTH, WIDTH, bias=False)
    return model


@pytest.mark.parametrize(
    ("into", "why"),
    [
        (lambda model: model.to("meta"), "has a form and no content"),
        (nn.DataParallel, "there is none there, in DataParallel"),
        (lambda _: "model", "cannot be copied into 'model'"),
    ],
)
def test_what_holds_no_such_parameters_is_not_synced_to(into: Callable[[nn.Module], Any], why: str) -> None:
    with pytest.raises(InvalidFeedError, match=why):
        placed().sync_to(into(words()))


def test_a_model_of_another_form_is_not_synced_to() -> None:
    with pytest.raises(InvalidFeedError, match=r"'layers\.0\.bias' of the step is \[8\], and there is none there"):
        placed().sync_to(other_model())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"layers.0.bias": torch.zeros(9)}, r"'layers\.0\.bias' is float32\[9\], and here float32\[8\]"),
        ({"layers.0.bias": torch.zeros(8).double()}, r"is float64\[8\], and here float32\[8\]"),
        ({"other": torch.zeros(1)}, "'other' is in one of them alone"),
    ],
)
def test_a_content_of_another_form_is_refused_and_nothing_is_taken_over(change: dict[str, Tensor], why: str) -> None:
    step = placed()
    before = step.state_dict()
    zeros = {name: torch.zeros_like(tensor) for name, tensor in before["tensors"].items()}
    with pytest.raises(InvalidFeedError, match=why):
        step.load_state_dict({"step": 7, "tensors": zeros | change})
    assert step.steps == 0
    assert all(torch.equal(tensor, before["tensors"][name]) for name, tensor in step.state_dict()["tensors"].items())


def test_frozen_parts_of_another_model_are_told(tmp_path: Path) -> None:
    step = placed()
    step.save_checkpoint(tmp_path)
    found = load(tmp_path)
    tensors = {name: found.tensor(name) for name in found.names}
    save(tmp_path, 0, tensors | {"frozen.weight": torch.zeros(WIDTH, WIDTH)})
    with pytest.raises(InvalidFeedError, match=r"'frozen\.weight', which no step changes"):
        step.load_checkpoint(tmp_path)


@pytest.mark.parametrize("scale", [torch.tensor([torch.nan, 0.5]), torch.tensor(torch.nan)])
def test_a_frozen_part_may_hold_what_is_no_number(scale: Tensor, tmp_path: Path) -> None:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return (model(x) * torch.nan_to_num(model.get_buffer("scale"), 2.0)).square().sum()

    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    model.register_buffer("scale", scale)
    made = capture(model, loss, optimizer=AdamW(), example_batch=(x,))
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="random:1")
    step.save_checkpoint(tmp_path)
    losses = [step(x).item() for _ in range(3)]
    step.load_checkpoint(tmp_path)
    assert [step(x).item() for _ in range(3)] == losses
    assert losses[0] == pytest.approx(loss(model, x).item(), rel=1e-5)


def test_a_frozen_part_is_kept_as_it_was(tmp_path: Path) -> None:
    model = words()
    made = capture(model, loss_of, optimizer=AdamW(), example_batch=batch_of(0))
    step = place(made, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu")
    with torch.no_grad():
        model.frozen.weight.zero_()
    step.save_checkpoint(tmp_path)
    assert torch.equal(load(tmp_path).tensor("frozen.weight"), words().frozen.weight)


def test_parts_are_asked_for_in_one_way(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="part= says"):
        placed().save_checkpoint(tmp_path, integrated=False, part=Part(1, 2))


TRAINER = """
import os, sys, torch
from tests.training.test_saving import losses_of, placed
torch.set_num_threads(1)

def tell(line):
    sys.stdout.write(line + "\\n")  # in one piece: parent and child write to one pipe
    sys.stdout.flush()

def train(folder, integrated):
    if list(os.scandir(folder)):
        step.load_checkpoint(folder)
    while step.steps < 100:
        losses_of(step, 1)
        step.save_checkpoint(folder, keep_max=2, integrated=integrated)
        tell(str(step.steps))

step = placed()
for line in sys.stdin:
    folder, kind = line.split()
    child = os.fork()
    if not child:
        train(folder, kind == "whole")
        os._exit(0)
    tell(f"trainer {child}")
    os.waitpid(child, 0)
    tell("dead")
"""
"""One process compiles the step, and forks a trainer for every line that it reads."""
KILLS = 12


@pytest.fixture(scope="module")
def trainers() -> Iterator[subprocess.Popen[str]]:
    home = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": home},
    ) as process:
        yield process
        process.kill()


def killed_trainer(trainers: subprocess.Popen[str], folder: Path, kind: str, seconds: float) -> int:
    """The last step that was saved when a trainer was killed, so long after it had begun to save."""
    assert trainers.stdin is not None
    assert trainers.stdout is not None
    trainers.stdin.write(f"{folder} {kind}\n")
    trainers.stdin.flush()
    child, saved = 0, 0
    for line in iter(trainers.stdout.readline, "dead\n"):
        match line.split():
            case ["trainer", number]:
                child = int(number)
            case [number]:
                if not saved:
                    time.sleep(seconds)
                    os.kill(child, signal.SIGKILL)
                saved = int(number)
            case _:
                raise AssertionError(line)
    return saved


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_a_kill_at_any_moment_leaves_a_checkpoint_that_goes_on_bit_for_bit(
    tmp_path: Path, trainers: subprocess.Popen[str], kind: str
) -> None:
    random, torn, step = Random(7), 0, placed()
    for _ in range(KILLS):
        saved = killed_trainer(trainers, tmp_path, kind, random.uniform(0.0, 0.03))
        torn += bool([*tmp_path.glob("*.incomplete"), *tmp_path.glob("*.replaced")])
        step.load_checkpoint(tmp_path)
        assert step.steps >= saved
        if step.steps < 100:
            assert losses_of(step, 1) == uninterrupted()[step.steps - 1 : step.steps]
    assert torn  # some kills came in the middle of a save


def test_a_run_that_is_resumed_by_another_process_is_this_one(tmp_path: Path, trainers: Any) -> None:
    saved = killed_trainer(trainers, tmp_path, "whole", 0.0)
    assert saved
    step = placed()
    step.load_checkpoint(tmp_path)
    assert losses_of(step, 100 - step.steps) == uninterrupted()[-(100 - load(tmp_path).step) :]
