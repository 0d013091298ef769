"""How to plant the defects of plans, in three of them.

One places a planted branch badly, one the model by chance, and one is of the model as it was before something heavy was
added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

import hetpart
from benchmarks.defects import Planted
from benchmarks.planting import Copy, Ground
from hetpart.cost_model import calibrated

HARDWARE = "l4+epyc"
OTHER_HARDWARE = "t4+epyc"
BUDGET = "20GB"
OLD_RUNTIME = "1.2.3"
_CUDA, _CPU = "cuda:0", "cpu"
_MANY = 2**26
_GIB_OF_FLOATS = 2**28
_BAD = (
    "cpu-island", "host-read-in-accelerator-region", "duplicate-initializer", "peak-from-one-value",
    "table-on-accelerator", "copy-bound-partition", "tiny-partition",
)  # fmt: skip
_RANDOM = ("baseline-better", "gap-above-limit")


def plan_defects(ground: Ground) -> Iterator[tuple[str, Planted]]:
    """By rule, as ``defects.PLANTS`` has the others."""
    yield from _badly_placed(ground)
    yield from _placed_by_chance(ground)
    yield from _outgrown(ground)
    yield "stale-calibration", _calibrated_before(ground)


def _partition(path: Path, ground: Ground, **options: Any) -> hetpart.Plan:
    return hetpart.partition(path, hardware=HARDWARE, shape=ground.shape, budget=BUDGET, time_limit=5, **options).plan


def _badly_placed(ground: Ground) -> Iterator[tuple[str, Planted]]:
    copy = ground.copy("badly-placed")
    for part in (_large_value, _table, _shared_weight, _shape_from_the_accelerator, _back_and_forth):
        part(copy)
    path = copy.write()
    plan = _partition(path, ground, pin=copy.pins, placement="all-cpu")
    for rule in _BAD:
        yield rule, Planted(path, options={"plan": plan})
    yield "ping-pong-copy", Planted(path, "back and forth", {"plan": plan})
    tight = [replace(use, budget_bytes=use.peak_bytes + 10) if use.device == _CUDA else use for use in plan.devices]
    yield "thin-headroom", Planted(path, _CUDA, {"plan": replace(plan, devices=tuple(tight))})


def _large_value(copy: Copy) -> None:
    copy.sum(copy.vector(2 * _GIB_OF_FLOATS, _CPU), device=_CUDA)


def _table(copy: Copy) -> None:
    table = copy.outside(2**25, "planted-table.bin", [2**19, 64])
    row = copy.node("Cast", [copy.scalar()], to=TensorProto.INT64)
    copy.sum(copy.node("Gather", [table, row], device=_CUDA))


def _shared_weight(copy: Copy) -> None:
    weight = copy.outside(2**20, "planted-shared.bin", [1024, 1024])
    for device in (_CPU, _CUDA):
        row = copy.node("Expand", [copy.scalar(), copy.weight(np.array([1, 1024]))])
        copy.sum(copy.node("MatMul", [row, weight], device=device))


def _shape_from_the_accelerator(copy: Copy) -> None:
    zero = copy.node("Mul", [copy.vector(1), copy.weight(np.zeros(1, np.float32))], device=_CUDA)
    one = copy.node("Add", [zero, copy.weight(np.ones(1, np.float32))], device=_CUDA)
    size = copy.node("Cast", [one], device=_CUDA, to=TensorProto.INT64)
    copy.sum(copy.node("Expand", [one, size], device=_CUDA))


def _back_and_forth(copy: Copy) -> None:
    """Large values first, which copies wait for; a single number at the end, which is no work at all."""
    value = copy.vector(_MANY, _CPU)
    for device in (_CUDA, _CPU) * 4:
        value = copy.node("Neg", [value], device=device)
    total = copy.node("ReduceSum", [value], device=_CPU, keepdims=0)
    for device in (_CUDA, _CPU) * 2:
        total = copy.node("Neg", [total], device=device)
    copy.give(total, shape=[])


def _placed_by_chance(ground: Ground) -> Iterator[tuple[str, Planted]]:
    plan = _partition(ground.path, ground, placement="random:1")
    for rule in _RANDOM:
        yield rule, Planted(ground.path, "", {"plan": plan})
    yield "profile-mismatch", Planted(ground.path, HARDWARE, {"plan": plan, "hardware": OTHER_HARDWARE})


def _outgrown(ground: Ground) -> Iterator[tuple[str, Planted]]:
    kept = _partition(ground.path, ground)
    copy = ground.copy("outgrown")
    copy.sum(copy.node("Neg", [copy.vector(_GIB_OF_FLOATS)]))
    path = copy.write()
    yield "stale-plan", Planted(path, "", {"plan": kept})
    yield "plan-regressed", Planted(path, "", {"plan": kept, "budget": BUDGET, "time_limit": 5})


def _calibrated_before(ground: Ground) -> Planted:
    place = calibrated.path_of(calibrated.this_processor(), OLD_RUNTIME)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("{}")
    return Planted(ground.path, OLD_RUNTIME, {"hardware": "l4"})
