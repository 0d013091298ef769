"""The loop over batches: steps, evaluations and those who listen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hetpart.errors import InvalidOptionError
from hetpart.training.data.prefetch import copied, prefetch
from hetpart.training.fitting.events import Callback, Ended, Evaluated, Event, StopTraining, Trained
from hetpart.training.fitting.metrics import Metric, array_of
from hetpart.training.fitting.progress import Bar
from hetpart.training.limits import require_count

PAIR = 2
"""Scores and labels."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of ``predict`` over all of ``loader``, every ``every`` steps and after the last."""

    loader: Iterable[Any]
    predict: Callable[..., tuple[Any, Any]]
    """Called with a batch, gives its scores and its labels: tensors or arrays, a sample per row."""
    metrics: Mapping[str, Metric]
    every: int | None = None
    """None: after every epoch."""
    prepare: Callable[[], object] | None = None
    """Called before: ``lambda: step.sync_to(model)`` lets ``predict`` use the model."""

    def __post_init__(self) -> None:
        _require_loader("the loader of the evaluation", self.loader)
        _require_function("predict", self.predict, "is called with a batch, and returns scores and labels")
        if self.prepare is not None:
            _require_function("prepare", self.prepare, "is called before every evaluation")
        if self.every is not None:
            require_count("every", self.every)
        metrics: Any = self.metrics
        if not isinstance(metrics, Mapping):
            raise InvalidOptionError(f"metrics cannot be {metrics!r}", hint='they have names: {"auc": auc}')
        for name, metric in self.metrics.items():
            _require_function(f"the metric {name!r}", metric, "is of scores and labels, as hetpart.training.auc")

    def run(self) -> dict[str, float]:
        """The metrics now.

        Raises:
            InvalidOptionError: the loader gives no batch, ``predict`` something else than scores and labels, or a
                metric no number.
        """
        if self.prepare is not None:
            self.prepare()
        pairs = [_scored(self.predict(*_parts(batch))) for batch in self.loader]
        if not pairs:
            raise InvalidOptionError("the loader of the evaluation gave no batch", hint="give one that starts anew")
        scores, labels = (
            _joined(name, parts) for name, parts in zip(("scores", "labels"), zip(*pairs, strict=True), strict=True)
        )
        return {name: _number(f"the metric {name!r}", metric(scores, labels)) for name, metric in self.metrics.items()}


@dataclass(slots=True)
class History:
    """What a training came to."""

    steps: list[Trained] = field(default_factory=list[Trained])
    evaluations: list[Evaluated] = field(default_factory=list[Evaluated])

    @property
    def losses(self) -> list[float]:
        return [event.loss for event in self.steps]


class _Run:
    """Counts steps and passes events on."""

    def __init__(self, step: Callable[..., Any], evaluation: Evaluation | None, listeners: Sequence[Callback]) -> None:
        self.step, self.evaluation, self.listeners = step, evaluation, listeners
        self.count = int(getattr(step, "calls", getattr(step, "steps", 0)))
        self.history = History()

    @property
    def reached(self) -> int:
        """The epoch of the last step."""
        return self.history.steps[-1].epoch if self.history.steps else 1

    def tell(self, event: Event) -> None:
        """Tell all of them, also those behind one that ends the training with this event."""
        ended: StopTraining | None = None
        for listener in self.listeners:
            try:
                listener.on(event)
            except StopTraining as stop:
                ended = ended or stop
        if ended is not None:
            raise ended

    def end(self, *, failed: bool) -> None:
        """Tell all of them, whichever fails at that."""
        with ExitStack() as all_of_them:
            for listener in reversed(self.listeners):
                all_of_them.callback(listener.on, Ended(self.count, failed))

    def epoch(self, number: int, batches: Iterable[Any]) -> None:
        before = perf_counter()
        for batch in batches:
            loss = _number("the step", self.step(*_parts(batch)))
            self.count += 1
            now = perf_counter()
            event = Trained(self.count, number, loss, now - before)
            self.history.steps.append(event)
            self.tell(event)
            if self.evaluation is not None and self.evaluation.every and not self.count % self.evaluation.every:
                self.evaluate(number)
            before = perf_counter()

    def evaluate(self, epoch: int) -> None:
        """Once per step at most."""
        done = self.history.evaluations
        if self.evaluation is None or (done and done[-1].step == self.count):
            return
        start = perf_counter()
        metrics = self.evaluation.run()
        event = Evaluated(self.count, epoch, metrics, perf_counter() - start)
        done.append(event)
        self.tell(event)


def fit(  # noqa: PLR0913 - the options of a training
    step: Callable[..., Any],
    loader: Iterable[Any],
    *,
    epochs: int = 1,
    evaluation: Evaluation | None = None,
    callbacks: Sequence[Callback] = (),
    ahead: int = 2,
    progress: bool = True,
) -> History:
    """Call ``step`` with every batch of ``loader``, ``epochs`` times over, and return the losses and metrics.

    ``step(*batch)`` returns the loss. A batch is a tuple or list of parts, or one part. ``ahead`` batches are made
    ready by a thread meanwhile, and copied, but for those of a ``DataLoader``, which has memory of its own for each. A
    callback that raises ``StopTraining`` ends it; metrics are taken then, too. ``progress`` draws a bar on standard
    error where that is a terminal. Steps are counted on from ``step.calls``, or ``step.steps``, where it has one.

    Raises:
        InvalidOptionError: ``epochs`` or ``ahead`` is no number of them, a callback, the evaluation or the loader is
            none, the loader gives no batch in an epoch, or the step returns no number.
    """
    require_count("epochs", epochs)
    require_count("ahead", ahead, least=0)
    _require_listeners(callbacks)
    _require_loader("the loader", loader)
    _require_function("step", step, "is called with a batch, and returns the loss")
    _require_evaluation(evaluation)
    listeners = [*callbacks, *([Bar(_total(loader, epochs))] if progress else [])]
    run = _Run(step, evaluation, listeners)
    failed = True
    try:
        with suppress(StopTraining):
            for number in range(1, epochs + 1):
                _epoch(run, number, loader, ahead)
        with suppress(StopTraining):
            run.evaluate(run.reached)
        failed = False
    finally:
        run.end(failed=failed)
    return run.history


def _epoch(run: _Run, number: int, loader: Iterable[Any], ahead: int) -> None:
    before = run.count
    kept = None if type(loader).__module__.startswith("torch.utils.data") else copied
    with closing(cast("Any", prefetch(loader, ahead, kept))) as batches:
        run.epoch(number, batches)
    if run.count == before:
        raise InvalidOptionError(f"the loader gave no batch in epoch {number}", hint=_why_none(number, loader))
    if run.evaluation is not None and run.evaluation.every is None:
        run.evaluate(number)


def _why_none(number: int, loader: Any) -> str:
    if number > 1 or hasattr(loader, "__next__"):
        return "an iterator is spent after one epoch: give a loader"
    size = getattr(loader, "batch_size", None)
    if size and getattr(loader, "drop_last", False):
        return f"it has fewer samples than batch_size={size}, and drop_last leaves them out: give a smaller batch_size"
    return "it is empty: give one with a batch at least"


def _parts(batch: Any) -> tuple[Any, ...]:
    return tuple(cast("Sequence[Any]", batch)) if isinstance(batch, (tuple, list)) else (batch,)


def _scored(pair: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    parts = cast("Sequence[Any]", pair) if isinstance(pair, tuple | list) else ()
    if len(parts) != PAIR:
        raise InvalidOptionError(
            f"predict returns a {type(cast('object', pair)).__name__}",
            hint="it returns scores and labels, a sample per row",
        )
    return array_of(parts[0]), array_of(parts[1])


def _joined(name: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The rows of all batches."""
    try:
        return np.concatenate(parts)
    except ValueError as error:
        shapes = " and of ".join(map(str, sorted({part.shape for part in parts}, key=str)[:2]))
        raise InvalidOptionError(
            f"predict returns {name} of {shapes}", hint="they are rows of one form, whatever the batch"
        ) from error


def _number(name: str, made: Any) -> float:
    """``float`` of a tensor warns where it still records gradients; ``item`` does not."""
    try:
        return float(made.item() if hasattr(made, "item") else made)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidOptionError(
            f"{name} returns a {type(made).__name__}, which is no number", hint="it returns one number"
        ) from error


def _require_listeners(callbacks: Any) -> None:
    """A callback alone is no list of them."""
    hint = 'callbacks are a list, of what has on(event): [hetpart.training.CSVLog("log.csv")]'
    if not isinstance(callbacks, list | tuple):
        raise InvalidOptionError(f"callbacks cannot be {callbacks!r}", hint=hint)
    for callback in cast("Sequence[Any]", callbacks):
        if not callable(getattr(callback, "on", None)):
            raise InvalidOptionError(f"a callback cannot be {callback!r}", hint=hint)


def _require_loader(name: str, loader: Any) -> None:
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise InvalidOptionError(f"{name} cannot be {loader!r}", hint="it gives batches: a list, a DataLoader")


def _require_function(name: str, given: Any, what: str) -> None:
    if not callable(given):
        raise InvalidOptionError(f"{name} cannot be {given!r}", hint=f"it is a function, and {what}")


def _require_evaluation(given: Any) -> None:
    if given is not None and not isinstance(given, Evaluation):
        raise InvalidOptionError(
            f"evaluation cannot be {given!r}", hint="it is Evaluation(loader, predict, metrics), of hetpart.training"
        )


def _total(loader: Any, epochs: int) -> int | None:
    try:
        return len(loader) * epochs
    except TypeError:  # as a DataLoader over what has no length has one that raises it
        return None
