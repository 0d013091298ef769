"""A bar that shows how far the training is, its loss and its pace."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hetpart.training.fitting.events import Callback, Ended, Evaluated, Event, Trained

_SMOOTHED = 0.9
"""Weight of the past in the loss and the pace that are shown."""


class Bar(Callback):
    """Drawn on ``console``, by default standard error; nothing is drawn where that is no terminal."""

    def __init__(self, total: int | None = None, console: Console | None = None) -> None:
        columns = (
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console or Console(stderr=True))
        self._progress.disable = not self._progress.console.is_terminal
        self._task = self._progress.add_task("step", total=total, told="")
        self._loss = self._seconds = math.nan
        self._metrics: Mapping[str, float] = {}
        self._started = False

    def on(self, event: Event) -> None:
        match event:
            case Trained():
                self._loss = _smoothed(self._loss, event.loss)
                self._seconds = _smoothed(self._seconds, event.seconds)
                self._draw(1)
            case Evaluated():
                self._metrics = event.metrics
                self._draw(0)
            case Ended():
                self._progress.stop()

    def _draw(self, advance: int) -> None:
        if not self._started:
            self._progress.start()
            self._started = True
        pace = 1.0 / self._seconds if self._seconds > 0 else math.inf
        metrics = "".join(f" · {name} {number:.4f}" for name, number in self._metrics.items())
        self._progress.update(self._task, advance=advance, told=f"loss {self._loss:.4f} · {pace:.1f} steps/s{metrics}")


def _smoothed(past: float, number: float) -> float:
    return number if math.isnan(past) else _SMOOTHED * past + (1.0 - _SMOOTHED) * number
