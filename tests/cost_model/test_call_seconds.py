from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model.call_seconds import (
    Surroundings,
    call_seconds,
    constants_seconds,
    filled_share,
    lost_share,
    read_anew,
    start_seconds,
)
from hetpart.cost_model.moving_calls import FAR_LOOKUPS, GATHER_SHARED, KernelCall
from hetpart.rates import RateTable, Starts
from tests.calibration.test_from_profile import made_up_rates

MEGABYTE = 2.0**20
KEPT = RateTable(((1 * MEGABYTE, 4 * MEGABYTE, 16 * MEGABYTE, 64 * MEGABYTE),), (1e-5, 4e-5, 32e-5, 192e-5))
"""10 us a megabyte while a cache holds them, 20 us at 16 MB, 30 us beyond."""


@pytest.mark.parametrize(
    ("weights", "own", "share"),
    [
        (2 * MEGABYTE, MEGABYTE, 0.0),
        (16 * MEGABYTE, MEGABYTE, 0.5),
        (64 * MEGABYTE, MEGABYTE, 1.0),
        (1e12, MEGABYTE, 1.0),
        (16 * MEGABYTE, 16 * MEGABYTE, 0.0),
        (64 * MEGABYTE, 16 * MEGABYTE, 1.0),
        (1e12, 1e11, 0.0),
    ],
)
def test_what_the_caches_do_not_keep_is_read_anew(weights, own, share):
    assert read_anew(weights, own, KEPT) == pytest.approx(share)


@pytest.mark.parametrize("call", [KernelCall("concat", (64, 64, 2)), KernelCall("scatter", (64, 64))])
def test_a_part_of_a_large_tensor_costs_what_the_part_does(call):
    """A Slice of it, or an update in place, wherever the rest of it lies."""
    around = Surroundings(distance=10**9, touched=2 * 10**9, weights=0, overwritten=10**9)
    assert call_seconds(call, made_up_rates(), around) < 1e-4


def test_weights_at_one_rate_are_never_read_anew():
    """However many: reading as fast from memory as from a cache is what the processor did."""
    flat = RateTable(((1 * MEGABYTE, 4 * MEGABYTE, 64 * MEGABYTE),), (1e-5, 4.0000001e-5, 64.0000002e-5))
    assert read_anew(64 * MEGABYTE, MEGABYTE, flat) == 0.0


def test_groups_of_a_convolution_start_once():
    """One kernel computes all of them."""
    rates = made_up_rates()
    least = 1e-5
    table = RateTable(((16.0, 64.0), (16.0, 64.0), (49.0,)), (least, 2e-5, 2e-5, 4e-5))
    rates = replace(rates, tables={**rates.tables, "pointwise": table}, warm_tables={"pointwise": table})
    around = Surroundings(distance=0, touched=0, weights=0)
    found = call_seconds(KernelCall("pointwise", (64, 64, 49), calls=4), rates, around)
    assert found == pytest.approx(least + 4 * (4e-5 - least))


def test_rows_are_far_where_the_run_passed_more_than_the_caches_hold():
    rates = made_up_rates()
    near = RateTable(((1e5,), (16.0,), (1e9,)), (1e-4,))
    tables = {**rates.tables, GATHER_SHARED: near, FAR_LOOKUPS: near.times(3.0)}
    rates = replace(rates, tables=tables, warm_tables={GATHER_SHARED: near})
    call = KernelCall(GATHER_SHARED, (100_000, 16, 1_000_000_000))
    for distance, expected in ((0, 1e-4), (int(2 * rates.cache_bytes), 3e-4)):
        around = Surroundings(distance=distance, touched=0, weights=0)
        assert call_seconds(call, rates, around) == pytest.approx(expected)


def test_a_kernel_that_one_thread_runs_moves_memory_at_the_rate_of_one():
    rates = replace(made_up_rates(), bandwidth=1e11, lone_bandwidth=1e9)
    around = Surroundings(distance=10**9, touched=10**7, weights=0)
    alone, shared = (
        call_seconds(KernelCall(family, sizes), rates, around)
        for family, sizes in (("scatter", (1000, 1)), ("relu", (1000,)))
    )
    assert alone == pytest.approx(1000 * 3 * 4 / 1e9)
    assert shared < alone


def test_caches_lose_the_code_of_kernels_at_random():
    """What is left of it after as many bytes as the last cache holds is exp(-1)."""
    rates = replace(made_up_rates(), weights_table=KEPT, cache_bytes=16 * MEGABYTE, cold=Starts(unary=5e-6, other=9e-6))
    everything = lost_share(10**6 * MEGABYTE, rates)
    for passed, lost in {0: 0.0, 1: 0.0606, 16: 0.6321, 64: 0.9817, 10**6: 1.0}.items():
        around = Surroundings(distance=0, touched=0, weights=0, since=passed * MEGABYTE, lost=everything)
        assert start_seconds(rates, around) == pytest.approx(5e-6 * lost, rel=1e-3)
        assert start_seconds(rates, replace(around, unary=False)) == pytest.approx(9e-6 * lost, rel=1e-3)


def test_what_a_session_keeps_of_its_nodes_is_lost_by_runs_that_pass_more_than_the_caches_hold():
    """Half of the second rate above the first at 16 MB, all of it at 64. Code of a kernel that just ran is there."""
    rates = replace(made_up_rates(), weights_table=KEPT, cache_bytes=MEGABYTE, cold=Starts(4e-7, 1e-6))
    for whole, anew in {1: 0.0, 16: 0.5, 64: 1.0, 10**6: 1.0}.items():
        around = Surroundings(distance=0, touched=0, weights=0, lost=lost_share(whole * MEGABYTE, rates))
        assert start_seconds(rates, around) == pytest.approx(4e-7 * anew)
        farther = replace(around, since=10**9 * MEGABYTE)
        assert start_seconds(rates, farther) == pytest.approx(14e-7 * anew)


def test_nodes_are_cool_where_a_run_passes_more_than_the_core_keeps():
    """As far as what they need is in some cache."""
    rates = replace(made_up_rates(), core_cache_bytes=MEGABYTE, cool=Starts(1e-7, 2e-7, 5e-7), cold=Starts(node=1e-6))
    around = Surroundings(distance=0, touched=0, weights=0, cooled=0.5)
    assert start_seconds(rates, around) == pytest.approx(0.5e-7)
    farther = replace(around, since=1000 * MEGABYTE)
    assert start_seconds(rates, farther) == pytest.approx(2.5e-7)
    assert start_seconds(rates, replace(farther, unary=False)) == pytest.approx(5.5e-7)
    assert start_seconds(rates, replace(farther, lost=1.0)) == pytest.approx(1e-6)


def test_a_kernel_that_fills_the_cores_caches_leaves_nothing_to_the_next_node():
    """A Reshape took 2 to 3 us behind products of 1 MB, with 2 MB of caches, 5 behind 2 MB, 9 to 11 behind 4."""
    shares = [filled_share(MEGABYTE * size, 2 * MEGABYTE) for size in (0.5, 1, 2, 3, 4)]
    assert shares == sorted(shares)
    assert shares[1] < 0.1
    assert 0.4 < shares[2] < 0.6
    assert shares[4] > 0.95
    rates = replace(made_up_rates(), filled_seconds=5e-6)
    around = Surroundings(distance=0, touched=0, weights=0, filled=0.4)
    assert start_seconds(rates, around) == pytest.approx(2e-6)
    assert start_seconds(rates, replace(around, convolves=True)) == 0.0


def test_fewer_elements_than_were_measured_take_the_start_and_their_part_of_the_rest():
    rates = replace(made_up_rates(), launch_seconds=1e-7)
    table = RateTable(((1000.0, 2000.0),), (11e-7, 21e-7))
    rates = replace(rates, tables={**rates.tables, "tanh": table}, warm_tables={**rates.warm_tables, "tanh": table})
    around = Surroundings(distance=0, touched=0, weights=0)
    for elements, taken in {1: 1.01e-7, 500: 6e-7, 1000: 11e-7, 2000: 21e-7}.items():
        assert call_seconds(KernelCall("tanh", (elements,)), rates, around) == pytest.approx(taken)


def test_constants_come_from_where_weights_do():
    """Half of the second rate above the first at 16 MB, all of it at 64."""
    rates = replace(made_up_rates(), weights_table=KEPT, cache_bytes=MEGABYTE, constant_seconds=1e-7)
    for whole, anew in {1: 0.0, 16: 0.5, 64: 1.0, 10**6: 1.0}.items():
        lost = lost_share(whole * MEGABYTE, rates)
        around = Surroundings(distance=0, touched=0, weights=0, constants=2, lost=lost)
        assert constants_seconds(rates, around) == pytest.approx(2e-7 * anew)


def test_short_sums_write_their_result_and_little_more():
    """Sums of half as many terms as were measured take half of what those do beyond writing."""
    rates, around = made_up_rates(), Surroundings(distance=0, touched=0, weights=0)
    table = RateTable(((1.0, 512.0), (16.0, 64.0), (1.0, 512.0)), (1e-6,) * 7 + (9e-4,))
    written = RateTable(((2.0**18,),), (2e-5,))
    rates = replace(
        rates,
        tables={**rates.tables, "gemm": table, "gemm_streamed": table},
        warm_tables={**rates.warm_tables, "gemm": RateTable(table.axes, (1e-4,) * 8), "relu": written},
    )
    halved, whole = (call_seconds(KernelCall("gemm", (512, terms, 512)), rates, around) for terms in (8, 16))
    assert whole == pytest.approx(1e-4)
    assert halved == pytest.approx(6e-5)
