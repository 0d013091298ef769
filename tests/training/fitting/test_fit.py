# pyright: reportMissingTypeStubs=false, reportArgumentType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import csv
import io
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import hetpart
import hetpart.training
from hetpart.errors import HetpartError, InvalidFeedError, InvalidOptionError
from hetpart.training.data import Clicks
from hetpart.training.fitting import (
    Callback,
    Checkpoints,
    CSVLog,
    Ended,
    Evaluated,
    Evaluation,
    Event,
    StopTraining,
    TensorBoard,
    Trained,
    accuracy,
    auc,
    fit,
)
from hetpart.training.fitting.progress import Bar


class Recorder(Callback):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


class Step:
    """Anything that is called with a batch and returns a loss."""

    def __init__(self, steps: int = 0) -> None:
        self.steps = steps
        self.seen: list[tuple[object, ...]] = []

    def __call__(self, *batch: object) -> Tensor:
        self.steps += 1
        self.seen.append(batch)
        return torch.tensor(1.0 / self.steps)


class Pair(NamedTuple):
    first: Any
    second: Any


LOADER = [(1, 2), [3, 4], 5]


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_every_batch_is_a_step_in_order(ahead: int) -> None:
    step, recorder = Step(), Recorder()
    history = fit(step, LOADER, epochs=2, callbacks=[recorder], ahead=ahead, progress=False)
    assert step.seen == [(1, 2), (3, 4), (5,)] * 2
    assert history.losses == pytest.approx([1.0 / n for n in range(1, 7)])
    assert recorder.events == [*history.steps, Ended(6)]
    assert [(event.step, event.epoch) for event in history.steps] == [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("kind", [tuple, list, lambda parts: Pair(*parts), lambda parts: (dict(enumerate(parts)),)])
def test_a_loader_may_fill_the_same_memory_again(ahead: int, kind: Callable[..., Any]) -> None:
    tensor, array = torch.zeros(2), np.zeros(2)

    def batches() -> Iterator[Any]:
        for number in range(6):
            tensor.fill_(number)
            array.fill(number)
            yield kind((tensor, array))

    def step(*batch: Any) -> float:
        time.sleep(0.01)
        first, second = batch[0].values() if isinstance(batch[0], dict) else batch
        return float(first.sum() + second.sum())

    assert fit(step, batches(), ahead=ahead, progress=False).losses == [4.0 * number for number in range(6)]


def test_steps_are_counted_on() -> None:
    assert [event.step for event in fit(Step(steps=50), LOADER, progress=False).steps] == [51, 52, 53]


@pytest.mark.parametrize(("every", "expected"), [(None, [3, 6]), (2, [2, 4, 6]), (4, [4, 6]), (3, [3, 6])])
def test_evaluations_come_every_so_many_steps_and_at_the_end(every: int | None, expected: list[int]) -> None:
    step, recorder = Step(), Recorder()
    evaluation = Evaluation(
        [(np.array([0.9, 0.1]), np.array([1, 0])), (np.array([0.2]), np.array([1]))],
        lambda scores, labels: (scores, labels),
        {"auc": auc, "accuracy": accuracy, "steps": lambda _, __: step.steps},
        every,
    )
    history = fit(step, LOADER, epochs=2, evaluation=evaluation, callbacks=[recorder], progress=False)
    assert [event.step for event in history.evaluations] == expected
    assert [dict(event.metrics) for event in history.evaluations] == [
        {"auc": 1.0, "accuracy": pytest.approx(2 / 3), "steps": n} for n in expected
    ]
    order = [event.step for event in recorder.events if isinstance(event, Trained | Evaluated)]
    assert order == sorted(order)


def test_evaluation_is_prepared() -> None:
    calls: list[str] = []
    evaluation = Evaluation(
        [1], lambda _: ([calls[-1]], [0]), {"n": lambda s, _: len(s)}, prepare=lambda: calls.append("x")
    )
    fit(Step(), LOADER, evaluation=evaluation, progress=False)
    assert calls == ["x"]


def test_an_error_of_the_step_is_told_and_raised() -> None:
    recorder, saved = Recorder(), list[int]()

    def step(_: object) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(step, [1], callbacks=[recorder, Checkpoints(lambda: saved.append(1), 1)], progress=False)
    assert recorder.events == [Ended(0, failed=True)]
    assert not saved


@pytest.mark.parametrize("place", [0, 1])
def test_the_end_is_told_to_all_whichever_callback_fails_at_it(place: int) -> None:
    class Failing(Callback):
        def on(self, event: Event) -> None:
            if isinstance(event, Ended):
                raise ZeroDivisionError

    recorders = [Recorder(), Recorder()]
    callbacks: list[Callback] = [*recorders]
    callbacks.insert(place, Failing())
    with pytest.raises(ZeroDivisionError):
        fit(Step(), [1], callbacks=callbacks, progress=False)
    assert [recorder.events[-1] for recorder in recorders] == [Ended(1)] * 2


def test_a_loader_of_fewer_samples_than_a_batch_is_told_so() -> None:
    loader = DataLoader(TensorDataset(torch.ones(3)), 10, drop_last=True)
    with pytest.raises(InvalidOptionError, match="no batch in epoch 1") as error:
        fit(Step(), loader, progress=False)
    assert "fewer samples than batch_size=10" in error.value.hint


@pytest.mark.parametrize(
    ("loader", "epochs", "message"),
    [([], 1, "no batch in epoch 1"), (iter([1]), 2, "no batch in epoch 2"), ([1], 0, "epochs cannot be 0")],
)
def test_training_on_nothing_is_refused(loader: list[int], epochs: int, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        fit(Step(), loader, epochs=epochs, progress=False)


class Endless(IterableDataset[Tensor]):
    """Has no length; a loader over it has one that raises an error."""

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.full((3,), float(n)) for n in range(4))


def test_a_loader_without_a_length_has_a_bar_too() -> None:
    assert len(fit(lambda x: x.sum(), DataLoader(Endless(), 2), epochs=2).losses) == 4


@pytest.mark.parametrize(("loader", "why"), [([], "it is empty"), (iter(()), "an iterator is spent")])
def test_why_there_is_no_batch_is_said(loader: Any, why: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        fit(Step(), loader, progress=False)
    assert why in error.value.hint


def test_an_evaluation_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="gave no batch"):
        fit(Step(), [1], evaluation=Evaluation([], lambda: ([], []), {}), progress=False)


def test_numbers_are_written_as_lines_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    evaluation = Evaluation([1], lambda _: ([1.0], [1.0]), {"accuracy": accuracy})
    for start in (0, 3):
        fit(Step(start), LOADER, evaluation=evaluation, callbacks=[CSVLog(path)], progress=False)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    losses = [(row["step"], float(row["value"])) for row in rows if row["name"] == "train/loss"]
    assert losses == [(str(n), pytest.approx(1.0 / n)) for n in range(1, 7)]
    assert [row["step"] for row in rows if row["name"] == "evaluation/accuracy"] == ["3", "6"]


@pytest.mark.parametrize("cut", ["2,1,train/loss,0.2", "2,1,tr", "2"])
def test_a_line_that_was_cut_off_is_not_continued(cut: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    whole = "step,epoch,name,value\n1,1,train/loss,1.0\n"
    path.write_text(whole + cut)
    fit(Step(1), [1], callbacks=[CSVLog(path)], progress=False)
    assert path.read_text().startswith(f"{whole}2,1,train/loss,0.5\n2,1,train/seconds,")


def test_callbacks_serve_one_training_after_another(tmp_path: Path) -> None:
    saved, told = list[int](), Recorder()
    log, checkpoints = CSVLog(tmp_path / "log.csv"), Checkpoints(lambda: saved.append(len(told.events)), 2)

    def train(batches: list[float], listeners: list[Callback]) -> None:
        fit(torch.tensor, batches, callbacks=[*listeners, log, checkpoints], progress=False)

    train([1.0, 2.0, 3.0], [told])
    with pytest.raises(InvalidOptionError, match="returns a list"):
        fit(lambda _: [], [1.0], callbacks=[log, checkpoints], progress=False)
    assert saved == [2, 4]
    train([4.0], [told])  # counted from 1 again, as a function has no count
    assert saved == [2, 4, 6]
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    losses = [(row["step"], float(row["value"])) for row in rows if row["name"] == "train/loss"]
    assert losses == [("1", 1.0), ("2", 2.0), ("3", 3.0), ("1", 4.0)]


def test_curves_are_those_that_tensorboard_reads(tmp_path: Path) -> None:
    evaluation = Evaluation([0, 1], lambda n: ([n], [0.5]), {"mean": lambda scores, _: scores.mean()}, every=2)
    history = fit(Step(), [1, 2, 3], evaluation=evaluation, callbacks=[TensorBoard(tmp_path)], progress=False)
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.step, one.value) for one in read.Scalars("train/loss")] == [
        (event.step, pytest.approx(event.loss)) for event in history.steps
    ]
    assert [one.value for one in read.Scalars("train/seconds")] == pytest.approx([e.seconds for e in history.steps])
    (curve,) = set(read.Tags()["scalars"]) - {"train/loss", "train/seconds"}
    assert curve.endswith("mean")
    assert [(one.step, one.value) for one in read.Scalars(curve)] == [(2, 0.5), (3, 0.5)]


def test_tensorboard_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InvalidOptionError, match="needs the package tensorboard"):
        TensorBoard("runs")


def test_curves_in_the_place_of_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HetpartError, match="file cannot be written: File exists"):
        TensorBoard(tmp_path / "file")


@pytest.mark.parametrize(("every", "expected"), [(2, [2, 4, 6]), (4, [4, 6]), (100, [6])])
def test_checkpoints_come_every_so_many_steps_and_at_the_end(every: int, expected: list[int]) -> None:
    step, saved = Step(), list[int]()
    fit(step, LOADER, epochs=2, callbacks=[Checkpoints(lambda: saved.append(step.steps), every)], progress=False)
    assert saved == expected


def test_the_bar_shows_loss_pace_and_metrics() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    bar = Bar(2, console)
    for event in (
        Trained(1, 1, 0.5, 0.25),
        Trained(2, 1, 0.5, 0.25),
        Evaluated(2, 1, {"auc": 0.75}, 1.0),
        Ended(2),
    ):
        bar.on(event)
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert "2/2" in drawn
    assert "loss 0.5000 · 4.0 steps/s · auc 0.7500" in drawn


def test_no_bar_is_drawn_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    fit(Step(), LOADER)
    assert capfd.readouterr() == ("", "")


def test_auc_is_the_chance_of_a_right_pair() -> None:
    random = np.random.default_rng(0)
    scores, labels = random.integers(0, 9, 200) / 9, random.integers(0, 2, 200)
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[labels == 1] for n in scores[labels == 0]]
    assert auc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), rel=1e-12)
    assert math.isnan(auc(scores, np.ones(200)))
    with pytest.raises(InvalidFeedError, match="200 scores and 100 labels"):
        auc(scores, labels[:100])


@pytest.mark.parametrize(
    ("scores", "labels", "metric", "expected"),
    [
        ([0.9, 0.4, 0.6], [1, 0, 0], accuracy, 2 / 3),
        ([2.0, -1.0, 0.3], [1, 0, 0], partial(accuracy, threshold=0.0), 2 / 3),
        ([[0.1, 0.9], [0.8, 0.2]], [1, 1], accuracy, 1 / 2),
    ],
)
def test_accuracy_is_the_part_told_right(
    scores: list[float], labels: list[int], metric: partial[float], expected: float
) -> None:
    assert metric(np.array(scores), np.array(labels)) == pytest.approx(expected)


def test_a_model_finds_the_planted_signal() -> None:
    data = Clicks((30, 20), batch_size=256, batches=60, dense=3, strength=3.0)
    held = [Clicks((30, 20), batch_size=2048, batches=61, dense=3, strength=3.0)[60]]
    model = nn.ModuleList([nn.Embedding(30, 1), nn.Embedding(20, 1), nn.Linear(3, 1)])
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)

    def logits(ids: Tensor, dense: Tensor) -> Tensor:
        return (model[0](ids[:, 0]) + model[1](ids[:, 1]) + model[2](dense)).squeeze(1)

    def step(ids: Tensor, dense: Tensor, label: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(logits(ids, dense), label)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def predict(ids: Tensor, dense: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return logits(ids, dense), label

    history = fit(step, data, evaluation=Evaluation(held, predict, {"auc": auc}), progress=False)
    assert history.losses[0] == pytest.approx(math.log(2), abs=1e-6)
    assert history.evaluations[-1].metrics["auc"] > 0.85


def test_losses_and_scores_may_record_gradients() -> None:
    weight = torch.ones(1, requires_grad=True)
    evaluation = Evaluation([torch.ones(1)], lambda x: (weight * x, x), {"accuracy": accuracy})
    history = fit(lambda x: (weight * x).sum(), [torch.ones(1)], evaluation=evaluation, progress=False)
    assert history.losses == [1.0]
    assert history.evaluations[0].metrics == {"accuracy": 1.0}


def test_an_endless_loader_is_left_when_a_step_fails() -> None:
    def endless() -> Iterator[int]:
        while True:
            yield 1

    def step(_: int) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(step, endless(), progress=False)


def test_fit_is_a_function_however_often_it_is_asked_for() -> None:
    assert [hetpart.training.fit for _ in range(2)] == [fit] * 2
    assert hetpart.training.Evaluation is Evaluation


def test_calls_are_counted_on_where_several_make_an_update(tmp_path: Path) -> None:
    batch = (torch.ones(4, 3), torch.zeros(4, 1))
    step = hetpart.training.compile(
        nn.Linear(3, 1),
        lambda model, x, y: nn.functional.mse_loss(model(x), y),
        optimizer=hetpart.training.SGD(0.1),
        example_batch=batch,
        accumulate=2,
        emulate=True,
        hardware="emulated",
    )
    fit(step, [batch] * 5, progress=False)
    assert (step.calls, step.steps) == (5, 2)
    step.save_checkpoint(tmp_path)
    assert [event.step for event in fit(step, [batch] * 3, progress=False).steps] == [6, 7, 8]
    step.load_checkpoint(tmp_path)
    assert [event.step for event in fit(step, [batch] * 2, progress=False).steps] == [6, 7]


def test_a_compiled_step_is_trained_evaluated_and_resumed(tmp_path: Path) -> None:
    """With a metric every so many steps, and checkpoints, one of which is gone on from."""
    torch.manual_seed(0)
    data = Clicks((60, 20), batch_size=32, batches=12, dense=3, seed=1)
    model = nn.Linear(3, 1)

    def loss_of(model: nn.Module, dense: Tensor, label: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(model(dense).squeeze(1), label)

    def predict(dense: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        return model(dense).detach().squeeze(1), label

    batches = [(dense, label) for _, dense, label in data]
    step = hetpart.training.compile(
        model,
        loss_of,
        optimizer=hetpart.training.AdamW(lr=0.05),
        example_batch=batches[0],
        emulate=True,
        hardware="emulated",
    )
    found = hetpart.training.fit(
        step,
        batches,
        evaluation=Evaluation(batches, predict, {"auc": auc}, every=4, prepare=lambda: step.sync_to(model)),
        callbacks=[CSVLog(tmp_path / "log.csv"), Checkpoints(lambda: step.save_checkpoint(tmp_path / "ckpt"), 6)],
        progress=False,
    )
    assert [event.step for event in found.evaluations] == [4, 8, 12]
    assert found.evaluations[-1].metrics["auc"] > 0.5
    step.load_checkpoint(tmp_path / "ckpt", 6)
    again = hetpart.training.fit(step, batches[6:], progress=False)
    assert [event.step for event in again.steps] == [*range(7, 13)]
    assert again.losses == found.losses[6:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": "2"}, "epochs cannot be '2'"),
        ({"ahead": -1}, "ahead cannot be -1"),
        ({"callbacks": [3]}, "a callback cannot be 3"),
        ({"loader": None}, "the loader cannot be None"),
        ({"step": lambda *_: None}, "the step returns a NoneType"),
        ({"predict": lambda *_: np.zeros(2)}, "predict returns a ndarray"),
        ({"metrics": {"auc": "auc"}}, "the metric 'auc' cannot be 'auc'"),
        ({"every": 0}, "every cannot be 0"),
        ({"callbacks": Recorder()}, "callbacks cannot be <"),
        ({"step": 3}, "step cannot be 3"),
        ({"evaluation": auc}, "evaluation cannot be <function auc"),
        ({"held": None}, "the loader of the evaluation cannot be None"),
        ({"predict": "predict"}, "predict cannot be 'predict'"),
        ({"prepare": 3}, "prepare cannot be 3"),
        ({"metrics": auc}, "metrics cannot be <function auc"),
        ({"metrics": {"none": lambda *_: None}}, "the metric 'none' returns a NoneType"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_wrong_options_are_told_in_one_message(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "step": lambda *_: 0.5, "loader": [1], "predict": lambda *_: (np.zeros(2), np.zeros(2)), "metrics": {},
        "every": None, "held": [1], "prepare": None,
    } | options  # fmt: skip
    told = {name: given[name] for name in given.keys() & {"epochs", "ahead", "callbacks", "evaluation"}}

    def trained() -> None:
        evaluation = Evaluation(
            given["held"], given["predict"], given["metrics"], every=given["every"], prepare=given["prepare"]
        )
        fit(given["step"], given["loader"], **{"evaluation": evaluation, "progress": False, **told})

    with pytest.raises(InvalidOptionError, match=message):
        trained()


def test_rows_of_several_forms_are_told() -> None:
    evaluation = Evaluation([1, 2], lambda x: (np.zeros((3, 1)[:x]), np.zeros(3)), {"right": accuracy})
    with pytest.raises(InvalidOptionError, match=r"predict returns scores of \(3, 1\) and of \(3,\)"):
        fit(lambda _: 0.5, [1], evaluation=evaluation, progress=False)


def test_a_sample_alone_is_a_row() -> None:
    evaluation = Evaluation([1, 0], lambda x: (torch.tensor(float(x)), torch.tensor(float(x))), {"right": accuracy})
    assert fit(lambda _: 0.5, [1], evaluation=evaluation, progress=False).evaluations[0].metrics == {"right": 1.0}


def test_metrics_and_scores_may_be_tensors() -> None:
    """Those of a model in half precision, and a metric of PyTorch's."""
    scores, labels = torch.tensor([0.25, 0.75], dtype=torch.bfloat16), torch.tensor([0, 1])
    metrics: Any = {"right": accuracy, "mean": lambda scores, _: torch.from_numpy(scores).mean()}
    found = fit(lambda _: 0.5, [1], evaluation=Evaluation([1], lambda _: (scores, labels), metrics), progress=False)
    assert found.evaluations[0].metrics == {"right": 1.0, "mean": 0.5}
    assert type(found.evaluations[0].metrics["mean"]) is float


@pytest.mark.parametrize("save", [None, "ckpt"])
def test_checkpoints_are_made_by_a_function(save: Any) -> None:
    with pytest.raises(InvalidOptionError, match="Checkpoints cannot call"):
        Checkpoints(save, 5)


def test_a_log_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HetpartError, match="cannot be written: No such file"):
        CSVLog(tmp_path / "nowhere" / "log.csv")


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step,epoch,name\n", "\x89PNG", "x" * 200])
def test_a_file_of_others_is_no_log_to_continue(text: str, tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    file.write_text(text)
    with pytest.raises(InvalidOptionError, match=r"results\.csv begins with .*'step,epoch,name,value'"):
        CSVLog(file)
    assert file.read_text() == text
    file.write_text("")
    fit(lambda _: 0.5, [1], callbacks=[CSVLog(file)], progress=False)
    assert file.read_text().startswith("step,epoch,name,value\n1,1,train/loss,0.5\n")


@pytest.mark.parametrize("path", [None, 3, ""])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidOptionError, match="path cannot be"):
        CSVLog(path)
    with pytest.raises(InvalidOptionError, match="folder cannot be"):
        TensorBoard(path)


class Patient(Recorder):
    """Stops at a step, or at an evaluation."""

    def __init__(self, kind: type[Event], step: int) -> None:
        super().__init__()
        self.kind, self.at = kind, step

    def on(self, event: Event) -> None:
        super().on(event)
        if isinstance(event, self.kind) and event.step == self.at:
            raise StopTraining


@pytest.mark.parametrize(("kind", "made"), [(Trained, 3), (Evaluated, 4)])
def test_a_callback_may_end_the_training(kind: type[Event], made: int) -> None:
    data = [(torch.zeros(2),)] * 5
    evaluation = Evaluation(data, lambda x: (x, x), {"n": lambda *pair: len(pair[0])}, every=2)
    patient = Patient(kind, made)
    history = fit(lambda _: 1.0, data, epochs=4, evaluation=evaluation, callbacks=[patient], progress=False)
    assert len(history.losses) == made
    assert history.evaluations[-1].step == made
    assert patient.events[-1] == Ended(made)


def test_the_event_that_ends_the_training_is_told_to_all(tmp_path: Path) -> None:
    """Those behind the one that ends it keep the last step, too."""
    saved, log = list[int](), tmp_path / "log.csv"
    behind = [Checkpoints(lambda: saved.append(len(saved)), every=2), CSVLog(log)]
    history = fit(lambda _: 1.0, [(torch.zeros(2),)] * 5, callbacks=[Patient(Trained, 3), *behind], progress=False)
    assert len(history.losses) == 3
    assert saved == [0, 1]
    assert {line.split(",")[0] for line in log.read_text().splitlines()[1:]} == {"1", "2", "3"}
