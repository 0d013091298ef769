# pyright: reportUnknownMemberType=false
"""Lines of calls, of which some make an update and some none."""

from __future__ import annotations

import logging

import pytest

from hetpart.training import AdamW
from hetpart.training.compiled import Running, capture, place
from hetpart.training.rules import Rules
from tests.training.models import mlp


def test_calls_that_make_no_update_tell_of_none(caplog: pytest.LogCaptureFixture) -> None:
    task, running = mlp(), Running(emulate=True, threads=1, record=True)
    captured = capture(
        task.model, task.loss, optimizer=AdamW(1e-3), example_batch=task.batches[0], rules=Rules(accumulate=3)
    )
    step = place(captured, running=running, hardware="emulated", placement="random:1")
    caplog.set_level(logging.INFO, "hetpart.run")
    parameters = [name for name, _ in task.model.named_parameters()]
    for number in range(6):
        caplog.clear()
        step(*task.batches[number % 4])
        told = [name for name in parameters if f"  update/{name} (" in caplog.text]
        assert told == (parameters if number % 3 == 2 else [])
        assert all(f"  collect/{name} (" in caplog.text for name in parameters)
