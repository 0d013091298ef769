"""The loop over batches: steps, evaluations and those who listen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hetpart.errors import InvalidOptionError
from hetpart.training.data.prefetch import prefetch
from hetpart.training.fitting.events import Callback, Ended, Evaluated, Event, Trained
from hetpart.training.fitting.metrics import Metric
from hetpart.training.fitting.progress import Bar


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

    def run(self) -> dict[str, float]:
        """The metrics now.

        Raises:
            InvalidOptionError: the loader gives no batch.
        """
        if self.prepare is not None:
            self.prepare()
        pairs = [self.predict(*_parts(batch)) for batch in self.loader]
        if not pairs:
            raise InvalidOptionError("the loader of the evaluation gave no batch", hint="give one that starts anew")
        scores, labels = (np.concatenate([_array(part) for part in parts]) for parts in zip(*pairs, strict=True))
        return {name: metric(scores, labels) for name, metric in self.metrics.items()}


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

    def tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener.on(event)

    def epoch(self, number: int, batches: Iterable[Any]) -> None:
        before = perf_counter()
        for batch in batches:
            loss = _number(self.step(*_parts(batch)))
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
    ready by a thread meanwhile. ``progress`` draws a bar on standard error where that is a terminal. Steps are counted
    on from ``step.calls``, or ``step.steps``, where it has one.

    Raises:
        InvalidOptionError: ``epochs`` is below 1, or the loader gives no batch in one of them.
    """
    if epochs < 1:
        raise InvalidOptionError(f"epochs={epochs} trains nothing", hint="give 1 or more")
    listeners = [*callbacks, *([Bar(_total(loader, epochs))] if progress else [])]
    run = _Run(step, evaluation, listeners)
    failed = True
    try:
        for number in range(1, epochs + 1):
            _epoch(run, number, loader, ahead)
        run.evaluate(epochs)
        failed = False
    finally:
        run.tell(Ended(run.count, failed))
    return run.history


def _epoch(run: _Run, number: int, loader: Iterable[Any], ahead: int) -> None:
    before = run.count
    with closing(cast("Any", prefetch(loader, ahead))) as batches:
        run.epoch(number, batches)
    if run.count == before:
        raise InvalidOptionError(
            f"the loader gave no batch in epoch {number}", hint="an iterator is spent after one epoch: give a loader"
        )
    if run.evaluation is not None and run.evaluation.every is None:
        run.evaluate(number)


def _parts(batch: Any) -> tuple[Any, ...]:
    return tuple(cast("Sequence[Any]", batch)) if isinstance(batch, (tuple, list)) else (batch,)


def _array(part: Any) -> NDArray[Any]:
    return np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)


def _number(loss: Any) -> float:
    """``float`` of a tensor warns where it still records gradients; ``item`` does not."""
    return float(loss.item() if hasattr(loss, "item") else loss)


def _total(loader: Iterable[Any], epochs: int) -> int | None:
    length = getattr(loader, "__len__", None)
    return None if length is None else int(length()) * epochs
