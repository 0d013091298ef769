"""The roof an op meets, by arithmetic on a device of round figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.roofline import VISIT_SECONDS, Bound, estimate
from hetpart.cost_model.transfer import copy_seconds, transfer_seconds
from hetpart.cost_model.work import NO_WORK, Work
from hetpart.devices import Device, Link, Machine, Provider

DEVICE = Device(
    name="cuda:0", model="round", provider=Provider.CUDA, memory_bytes=10**9,
    peak_flops={"float32": 2e12, "float16": 8e12}, bandwidth=2e11, random_bandwidth=1e10, launch_seconds=1e-6,
    efficiency=0.5, bandwidth_efficiency=0.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("work", "dtype", "seconds", "bound"),
    [
        (Work(1e9, 10**6, 0), "float32", 1e-6 + 1e-3, Bound.COMPUTE),
        (Work(1e9, 10**6, 0), "float16", 1e-6 + 2.5e-4, Bound.COMPUTE),
        (Work(1e9, 10**6, 0), "int7", 1e-6 + 1e-3, Bound.COMPUTE),
        (Work(1e6, 10**8, 10**8), "float32", 1e-6 + 2e-3, Bound.MEMORY),
        (Work(0.0, 10**7, 10**7, bytes_scattered=10**7), "float32", 1e-6 + 1e-4 + 1e-3, Bound.MEMORY),
        (Work(10.0, 40, 40), "float32", 1e-6 + 8e-10, Bound.LAUNCH),
        (Work(1e7, 40, 40, launches=100), "float32", 1e-4 + 1e-5, Bound.LAUNCH),
        (NO_WORK, "float32", VISIT_SECONDS, Bound.LAUNCH),
    ],
)
def test_the_slower_of_arithmetic_and_memory_counts_after_the_launches(work, dtype, seconds, bound):
    result = estimate(work, DEVICE, dtype)
    assert result.seconds == pytest.approx(seconds)
    assert result.bound is bound


def test_balance_is_where_the_roofs_meet():
    at_balance = estimate(Work(0.0, 1, 0), DEVICE, "float32").balance
    assert at_balance == pytest.approx(10)
    below, above = Work(0.9 * at_balance * 1e8, 10**8, 0), Work(1.1 * at_balance * 1e8, 10**8, 0)
    assert estimate(below, DEVICE, "float32").bound is Bound.MEMORY
    assert estimate(above, DEVICE, "float32").bound is Bound.COMPUTE


def test_a_copy_is_latency_and_then_bandwidth():
    assert transfer_seconds(10**9, Link("cpu", "cuda:0", 1e10, 1e-5)) == pytest.approx(0.10001)
    assert transfer_seconds(0, Link("cpu", "cuda:0", 1e10, 1e-5)) == 1e-5


def test_accelerators_without_a_link_copy_through_the_host():
    base = load_machine("l4+epyc")
    up, down = Link("cuda:0", "cpu", 1e9, 1.0), Link("cpu", "cuda:1", 2e9, 2.0)
    devices = (*base.devices, replace(base.devices[1], name="cuda:1"))
    machine = Machine("two", devices, (up, down), "a test")
    assert copy_seconds(machine, 10**9, 1, 2) == pytest.approx(1 + 1 + 2 + 0.5)
    assert copy_seconds(machine, 10**9, 1, 1) == 0.0


def test_what_goes_element_by_element_takes_its_cycles():
    work = Work(flops=1e3, bytes_read=4000, bytes_written=4000, serial_cycles=6e6, spread_cycles=8e6)
    slow = replace(DEVICE, clock=2e9, cores=4)
    assert estimate(work, slow, "float32").seconds == pytest.approx(slow.launch_seconds + 3e-3 + 1e-3)
    assert estimate(work, slow, "float32").bound is Bound.COMPUTE
    assert estimate(work, replace(slow, clock=0.0), "float32").seconds < 1e-4
