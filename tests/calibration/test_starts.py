"""What nodes take to start, from made-up seconds of probes."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from hetpart.calibration.probes import FEW, KINDS, LONG, MANY, MIXED, SHORT, TWIN
from hetpart.calibration.starts import StartProbes
from hetpart.calibration.taken import Taken, TakenByKernels, named
from hetpart.rates import Starts


def test_what_cold_code_takes_is_told_from_what_cold_nodes_take():
    """64 kernels of one kind, and 23 and 25 that all differ, each beside a session of one."""
    probes = {named(key): Taken(streamed=0.0, cool=cool, warm=warm, far=far) for key, warm, cool, far in (
        (TWIN, 2.0, 3.0, 20.0), (LONG, 12.0, 13.0 + 63 * 0.25, 30.0 + 63 * 0.5),
        (MIXED, 7.0, 8.0 + 22 * 0.75, 25.0 + 22 * 1.5), (KINDS, 9.0, 10.0 + 24 * 1.25, 27.0 + 24 * 3.5),
    )}  # fmt: skip
    shorts = {named(SHORT): TakenByKernels({"Relu": 5.0}, {"Relu": 1.0})}
    starts = StartProbes(probes, shorts)
    assert astuple(starts.cold) == pytest.approx((0.5, 1.0, 2.0))
    assert astuple(starts.cool) == pytest.approx((0.25, 0.5, 1.0))
    assert starts.filled_seconds == pytest.approx(5.0 - 1.0 - 0.25 - 0.5)
    warm = {key: replace(taken, far=taken.warm, cool=taken.warm) for key, taken in probes.items()}
    assert StartProbes(warm, shorts).cold == StartProbes(warm, shorts).cool == Starts()


def test_what_cold_operands_take_is_what_many_take_longer_than_few() -> None:
    """32 more of them, whose code and whose session are as cold."""
    probes = {named(key): Taken(0.0, 0.0, warm, far) for key, warm, far in ((FEW, 2.0, 20.0), (MANY, 5.0, 39.0))}
    assert StartProbes(probes, {}).cold_operand_seconds == pytest.approx(0.5)
