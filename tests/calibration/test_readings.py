"""Built readings, in which what every probe takes is known, and what one disturbed probe makes of the rest."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from math import prod

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from hetpart.calibration import measure
from hetpart.calibration.families import CONVOLUTIONS, FAMILIES
from hetpart.calibration.probes import (
    COLD,
    FLUSHED,
    KEPT_LAYERS,
    LONG,
    LONG_CHAIN,
    MANY,
    SHORT,
    TWIN,
    VIEWS,
    probe_keys,
)
from hetpart.calibration.samples import MOST_CACHE_BYTES, Sampled, Samples
from hetpart.calibration.taken import Taken, TakenByKernels, named
from hetpart.cli import main
from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import VERSION, runtime_version, slower_together, too_fast, too_slow
from hetpart.cost_model.call_seconds import lost_share
from hetpart.cost_model.detect import this_processor
from hetpart.cost_model.kernel_calls import REORDER
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.moving_calls import GATHER_SHARED
from hetpart.rates import LEAST_SECONDS, RateTable
from hetpart.report.calibration_text import calibration_parts

SESSION, START, FLUSH = 2e-6, 0.2e-6, 60e-6
MICROSECOND = 1e-6
MEASURED = max(4 * width**2 * layers for width, layers in KEPT_LAYERS)


def _work(key):
    """Seconds of one call beyond its start."""
    _, sizes = key
    return 1e-12 * prod(sizes)


def _run(key):
    name, _ = key
    if key in (LONG, VIEWS):
        return SESSION + LONG_CHAIN * START
    return SESSION + (FAMILIES[name].calls * (START + _work(key)) if name in FAMILIES else START)


def _taken(key):
    seconds = _run(key)
    return Taken(seconds, seconds, seconds, seconds + FLUSH * (key[0] in FLUSHED))


def _kernels(key):
    return {"Relu": LEAST_SECONDS} if key == SHORT else dict.fromkeys(("Conv", "ReorderInput", "ReorderOutput"), START)


@pytest.fixture
def quiet():
    """One thread of a machine on which nothing else ran."""
    keys = list(probe_keys())
    profiled = {
        named(key): TakenByKernels(_kernels(key), _kernels(key)) for key in keys if key[0] in {*CONVOLUTIONS, SHORT[0]}
    }
    return Samples(1, {named(key): _taken(key) for key in keys if key[0] not in CONVOLUTIONS}, profiled, 0.0, 1.0)


def disturbed(samples, key, **seconds):
    """The same with ``key`` taking other ``seconds``."""
    probes = {**samples.probes, named(key): replace(samples.probes[named(key)], **seconds)}
    return replace(samples, probes=probes)


def sampled(samples):
    processor = this_processor()
    return Sampled(VERSION, processor.kind, processor.cores, runtime_version(), (samples,), 1e10, MICROSECOND)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))


def test_what_a_product_takes_is_its_start_and_its_work(quiet):
    rates = quiet.rates(0.0)
    sizes = (64, 256, 768)
    for tables in (rates.tables, rates.warm_tables):
        assert tables["gemm"].at(sizes) == pytest.approx(START + _work(("gemm", sizes)))
    assert too_fast(rates) == ()
    assert not rates.was_disturbed


def test_a_disturbed_probe_of_the_session_makes_no_kernel_faster(quiet):
    """It took 40 times what it does, and all tables stay what they were."""
    known = quiet.rates(0.0)
    found = disturbed(quiet, TWIN, streamed=12e-6, cool=12e-6, warm=100e-6).rates(0.0)
    for before, after in ((known.tables, found.tables), (known.warm_tables, found.warm_tables)):
        for name, table in before.items():
            np.testing.assert_allclose(after[name].seconds, table.seconds, rtol=1e-3, err_msg=name)
    np.testing.assert_allclose(found.weights_table.seconds, known.weights_table.seconds, rtol=1e-3)
    assert found.peak_flops == pytest.approx(known.peak_flops, rel=1e-3)
    assert too_fast(found) == ()
    assert found.was_disturbed


def test_what_a_flush_leaves_is_bounded_by_what_ran_after_one(quiet):
    """Not by the runs of warm caches, which are shorter than any overhead after a flush."""
    started = START + FLUSH / (LONG_CHAIN - 1)
    sizes = min(FAMILIES[GATHER_SHARED].points(), key=prod)
    works = [_work((GATHER_SHARED, point)) for point in FAMILIES[GATHER_SHARED].points()]
    for far, taken_off in ((SESSION + START + FLUSH, 0.0), (5e-3, min(works))):
        table = disturbed(quiet, TWIN, far=far).rates(0.0).tables["gather_far"]
        assert table.at(sizes) == pytest.approx(started + _work((GATHER_SHARED, sizes)) - taken_off)
        assert min(table.seconds) >= START


def test_tables_of_which_more_was_taken_off_than_they_hold_are_named(quiet):
    """Operands of a Concat of 34 seem to take 500 µs: those of 32 seem to take less than nothing."""
    assert too_fast(disturbed(quiet, MANY, cool=500e-6).rates(0.0)) == ("concat",)


@pytest.mark.parametrize(("share", "named_too_fast"), [(0.05, ()), (0.2, ("gemm",))])
def test_few_calls_at_the_floor_are_chance(quiet, share, named_too_fast):
    rates = quiet.rates(0.0)
    points = 100
    axis = tuple(map(float, range(1, points + 1)))
    floors = round(share * points)
    table = RateTable((axis,), (LEAST_SECONDS * (1 + 1e-9),) * floors + (MICROSECOND,) * (points - floors))
    nothing = RateTable((axis,), (LEAST_SECONDS,) * points)
    assert too_fast(replace(rates, warm_tables={"gemm": table, REORDER: nothing})) == named_too_fast


@pytest.mark.parametrize(
    ("key", "seconds", "says"),
    [
        (TWIN, {}, ()),
        (TWIN, {"warm": 100e-6}, ("too slow", "45.5 times")),
        (MANY, {"cool": 500e-6}, ("Too fast", "concat", "do not plan with these")),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_the_command_says_which_way_figures_are_off(monkeypatch, quiet, key, seconds, says):
    monkeypatch.setattr(measure, "sample", lambda _progress: sampled(disturbed(quiet, key, **seconds)))
    shown = CliRunner().invoke(main, ["calibrate"])
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 0, shown.output
    assert all(words in text for words in says)
    assert ("Other work" in text) == ("--refine" in text) == bool(says)


@pytest.mark.parametrize(("gain", "named"), [(1.9, ()), (0.4, (2,))])
@pytest.mark.usefixtures("own_folder")
def test_threads_that_multiply_slower_together_than_one_alone_are_named(quiet, gain, named):
    """Two threads of which one waits for a core of which the other has the rest."""
    found = sampled(quiet).calibration()
    alone = found.threads["1"]
    both = replace(alone, peak_flops={kind: gain * rate for kind, rate in alone.peak_flops.items()})
    together = replace(found, cores=2, threads={"1": alone, "2": both})
    console = Console(width=400, file=StringIO())
    console.print(*calibration_parts(together))
    assert slower_together(together) == named
    assert ("2 threads together multiply slower than one in float32" in console.file.getvalue()) == bool(named)
    calibrated.save(replace(together, cores=found.cores))
    assert ("slower than one thread" in load_machine("emulated", threads=2).origin) == bool(named)


@pytest.mark.parametrize(
    ("key", "seconds", "share", "says"),
    [
        (TWIN, {}, 0.9, ""),
        (TWIN, {}, 0.1, "while other work slowed it: calibrate --refine"),
        (TWIN, {"warm": 100e-6}, 0.9, "while other work slowed it: calibrate --refine"),
        (MANY, {"cool": 500e-6}, 0.9, "impossibly fast figures of concat: calibrate --refine"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_machines_say_what_their_calibration_is_worth(quiet, key, seconds, share, says):
    found = sampled(replace(disturbed(quiet, key, **seconds), quiet_share=share)).calibration()
    calibrated.save(replace(found, threads={"1": replace(found.threads["1"], error=0.17)}))
    origin = load_machine("emulated", threads=1).origin
    assert "off by 17 %" in origin
    assert says in origin
    assert ("calibrate --refine" in origin) == bool(says)


@pytest.mark.usefixtures("own_folder")
def test_threads_that_are_slower_together_in_one_type_alone_are_named_with_it(quiet):
    """As measured on two cores that had other work: 27 GFLOP/s of float64 by two threads, 45 by one."""
    found = sampled(quiet).calibration()
    alone = replace(found.threads["1"], peak_flops={"float32": 108e9, "float64": 44.6e9})
    both = replace(alone, peak_flops={"float32": 203e9, "float64": 26.8e9})
    together = replace(found, cores=2, threads={"1": alone, "2": both})
    console = Console(width=400, file=StringIO())
    console.print(*calibration_parts(together))
    assert (slower_together(together), slower_together(together, "float64")) == ((), (2,))
    text = console.file.getvalue()
    assert "slower than one in float64: 27 GFLOP/s, one alone 45 GFLOP/s" in text
    assert "in float32" not in text


@pytest.mark.parametrize(("share", "slower", "named"), [(0.5, 56, ("depthwise",)), (0.5, 2, ()), (0.1, 56, ())])
@pytest.mark.usefixtures("own_folder")
def test_convolutions_that_others_slowed_are_named(quiet, share, slower, named):
    """A 3x3 window of every channel takes 18 operations a place; undisturbed, at half the rate of products."""
    found = sampled(quiet).calibration()
    rates = replace(found.threads["1"], peak_flops={"float32": 1e11})
    places = tuple(map(float, range(100_000, 100_100)))
    slowed = round(share * len(places))
    seconds = [18 * place / 5e10 * (slower if number < slowed else 1) for number, place in enumerate(places)]
    table = RateTable((places,), tuple(seconds))
    rates = replace(rates, tables={"depthwise": table}, warm_tables={})
    assert too_slow(rates) == named
    calibrated.save(replace(found, threads={"1": rates}))
    assert ("figures of depthwise are too slow" in load_machine("emulated", threads=1).origin) == bool(named)
    console = Console(width=400, file=StringIO())
    console.print(*calibration_parts(replace(found, threads={"1": rates})))
    assert ("Too slow" in console.file.getvalue()) == bool(named)


@pytest.mark.parametrize(("last_cache", "reaches"), [(2**25, MEASURED), (300 * 2**20, 600 * 2**20)])
def test_a_large_last_cache_keeps_only_what_weights_were_read_from_it(quiet, monkeypatch, last_cache, reaches):
    """Weights of 100 MB may come from a cache of 300 MB, and those of twice its size come from main memory."""
    monkeypatch.setattr("hetpart.calibration.samples.cache_bytes", lambda _: last_cache)
    slow = disturbed(quiet, COLD, streamed=20e-3)
    rates = slow.rates(MICROSECOND)
    (sizes,), seconds = rates.weights_table.axes, rates.weights_table.seconds
    assert sizes[-1] == reaches
    assert rates.cache_bytes == min(last_cache / 2, MOST_CACHE_BYTES)
    lost = lost_share(1e9, rates)
    if reaches > MEASURED:
        assert seconds[-1] == pytest.approx(reaches / rates.cold_bandwidth)
        assert lost == 1.0
        assert 0 < lost_share(300e6, rates) < lost
    else:
        assert lost == 0.0


def test_copies_take_as_long_with_two_threads_as_with_one_and_concatenations_do_not(quiet):
    keys = [key for key in probe_keys() if key[0] == "concat"]
    both = replace(quiet, threads=2)
    for key in keys:
        taken = quiet.probes[named(key)].cool / 2
        both = disturbed(both, key, cool=taken, warm=taken, streamed=taken, far=taken)
    alone, together = quiet.rates(MICROSECOND).tables, both.rates(MICROSECOND, quiet).tables
    assert together["copied"] == alone["copied"] == alone["concat"]
    assert max(together["concat"].seconds) < 0.7 * max(alone["concat"].seconds)
