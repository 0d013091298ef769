"""Refit a calibration to a real run: what ONNX Runtime's profile says of every kernel, against what the tables say.

A profile tells a kernel's op type, the shapes of its operands and its time; its attributes and the weights that ONNX
Runtime packed for it are left out. What shapes leave open is not guessed: such kernels do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hetpart.calibration.families import FAMILIES
from hetpart.calibration.probes import OVERHEADS, SHORT
from hetpart.calibration.profiled_calls import ProfiledCall, ProfiledKernel, kernel_calls
from hetpart.calibration.run_profile import RunProfile, read_profile
from hetpart.calibration.timing import Profiled
from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import Calibration
from hetpart.cost_model.call_seconds import call_seconds
from hetpart.cost_model.kernel_calls import STREAMED
from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.rates import LEAST_SECONDS, KernelRates, RateTable
from hetpart.units import format_count

LEAST_TOLD = 1e-5
"""Kernels that the tables say take less tell nothing. A profile counts whole microseconds, and what a run adds to a
short kernel, such as fetching its code, is no part of the tables. What was measured neither chooses nor weighs: it
would favour what was disturbed."""
LEAST_RUNS = 3
"""The first allocates what later ones find, and one more may have been disturbed."""
FARTHEST = 100.0
"""A run that took so many times what was measured here, or so small a part, is of another machine or was edited."""
PRACTICE = 100


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """What a profile says of one family."""

    family: str
    kernels: int
    seconds: float
    """That the tables say they take together."""
    factor: float
    """Median of measured to predicted seconds, each weighed by the predicted."""
    points: int
    """Of the family's table that these kernels are read between, each multiplied by the median of those."""
    all_points: int


@dataclass(frozen=True, slots=True)
class Refit:
    """A calibration refitted to a run."""

    calibration: Calibration
    threads: int
    families: tuple[FamilyFit, ...]
    left_out: int
    """Kernels that tell nothing of a family."""


def refit_from(path: Path, threads: int = 0) -> Refit:
    """This machine's calibration, refitted to the profile at ``path`` and not yet saved.

    Args:
        path: Of the JSON file that ``session.end_profiling()`` names.
        threads: Of the profiled session; 0 takes what the profile says, else all cores.

    Raises:
        HetpartError: this machine has no calibration.
        InvalidOptionError: the file is no such profile, or of another number of threads, or tells nothing.
    """
    profile = read_profile(path)
    _require_usable(path, profile)
    found = calibrated.load()
    if found is None:
        raise HetpartError(
            "this machine has no calibration that a profile could refit", hint="run `hetpart calibrate` first"
        )
    count = _threads(path, profile, threads or profile.threads or found.cores)
    _rates(found, count)
    refitted = refit(found, profile.kernels, count, _noting(count))
    if not refitted.families:
        raise InvalidOptionError(
            f"none of the {format_count(len(profile.kernels), 'kernel')} in {path} tells anything of a measured family",
            hint="profile a model of float32 products, convolutions or elementwise ops of 10 µs or more each",
        )
    _require_likely(path, refitted.families)
    return refitted


def _require_usable(path: Path, profile: RunProfile) -> None:
    """Refuse runs whose kernels are not those that were measured, or took what no later run takes."""
    if profile.runs < LEAST_RUNS:
        raise InvalidOptionError(
            f"{path} is of {format_count(profile.runs, 'run')}, and the first allocates what later ones find",
            hint=f"run the session some ten times, {LEAST_RUNS} at least, before `session.end_profiling()`",
        )
    if profile.in_parallel:
        raise InvalidOptionError(
            f"{path} is of a session that runs kernels beside one another, so that each takes longer",
            hint="profile a session with `execution_mode = ORT_SEQUENTIAL`",
        )
    plain = profile.convolutions_out_of_blocks
    if plain:
        raise InvalidOptionError(
            f"none of the {format_count(plain, 'convolution')} of 16 channels and more in {path} computes on blocks of"
            " channels, as those that were calibrated do",
            hint="profile a session with `graph_optimization_level = ORT_ENABLE_ALL`",
        )


def _require_likely(path: Path, fits: Sequence[FamilyFit]) -> None:
    """Refuse what would spoil a calibration: no load makes a family so slow, nothing so fast."""
    for fit in fits:
        if not 1 / FARTHEST <= fit.factor <= FARTHEST:
            raise InvalidOptionError(
                f"{fit.family} took {fit.factor:.3g} times in {path} what was measured here",
                hint="profile a run on this machine; `hetpart calibrate` measures it anew if it changed so much",
            )


def refit(found: Calibration, kernels: Sequence[ProfiledKernel], threads: int, noting: float) -> Refit:
    """``found`` with the tables at ``threads`` threads scaled to what kernels took, where these are read in them.

    What one size takes says nothing of others far from it: a product of one row waits for its weights, one of many
    computes, and what bounds them errs differently.

    Args:
        found: What was measured before.
        kernels: Of a run, in order.
        threads: Of the run.
        noting: Seconds that profiling itself adds to a kernel.
    """
    rates = _rates(found, threads)
    told: dict[str, list[_Told]] = {}
    for call in kernel_calls(kernels):
        one = _told(call, call.seconds - noting, rates)
        if one is not None:
            told.setdefault(call.call.family, []).append(one)
    fits = tuple(_family_fit(name, those, rates.tables[name]) for name, those in sorted(told.items()))
    calibration = replace(found, threads={**found.threads, str(threads): _scaled(rates, told)})
    return Refit(calibration, threads, fits, len(kernels) - sum(fit.kernels for fit in fits))


@dataclass(frozen=True, slots=True)
class _Told:
    """What one kernel tells of its family."""

    sizes: Sequence[float]
    seconds: float
    """Predicted."""
    ratio: float
    """Of measured seconds to those."""


def _family_fit(name: str, told: Sequence[_Told], table: RateTable) -> FamilyFit:
    seconds = sum(one.seconds for one in told)
    factor = _median((one.ratio, one.seconds) for one in told)
    return FamilyFit(name, len(told), seconds, factor, len(_factors(table, told)), len(table.seconds))


def _median(weighted: Iterable[tuple[float, float]]) -> float:
    """The least value of which, with those below, the weights are half of all."""
    ascending = sorted(weighted)
    half, passed = sum(weight for _, weight in ascending) / 2, 0.0
    for value, weight in ascending:
        passed += weight
        if passed >= half:
            return value
    raise AssertionError("a median of nothing")


def _factors(table: RateTable, told: Iterable[_Told]) -> dict[int, float]:
    """For each point that kernels are read at, the median of their ratios by the seconds that are read there."""
    ratios: dict[int, list[tuple[float, float]]] = {}
    for one in told:
        for point, share in table.read(one.sizes):
            if share:
                ratios.setdefault(point, []).append((one.ratio, share * one.seconds))
    return {point: _median(those) for point, those in sorted(ratios.items())}


def _told(profiled: ProfiledCall, seconds: float, rates: KernelRates) -> _Told | None:
    """Nothing where the clock or the memory's rate decides and not the table."""
    untouched = replace(profiled.around, touched=0)
    predicted, by_table = (call_seconds(profiled.call, rates, around) for around in (profiled.around, untouched))
    if predicted > by_table:
        return None
    # Tables of kernels measured end to end hold the start of a kernel, which the profile's own cost covers.
    started = seconds + (rates.launch_seconds if profiled.call.family in FAMILIES else 0.0)
    measured = max(LEAST_SECONDS, started)
    return _Told(profiled.call.sizes, predicted, measured / predicted) if predicted >= LEAST_TOLD else None


def _scaled(rates: KernelRates, told: Mapping[str, Sequence[_Told]]) -> KernelRates:
    told = {**told, STREAMED: told["gemm"]} if "gemm" in told else told
    return replace(rates, tables=_refitted(rates.tables, told), warm_tables=_refitted(rates.warm_tables, told))


def _refitted(tables: Mapping[str, RateTable], told: Mapping[str, Sequence[_Told]]) -> dict[str, RateTable]:
    return {name: table.times_at(_factors(table, told.get(name, ()))) for name, table in tables.items()}


def _rates(found: Calibration, threads: int) -> KernelRates:
    rates = found.rates(threads)
    if rates is None:
        raise InvalidOptionError(
            f"the calibration is of {' and of '.join(found.threads)} threads, not of {threads}",
            hint="profile a session with one of these numbers as its `intra_op_num_threads`",
        )
    return rates


def _threads(path: Path, profile: RunProfile, wanted: int) -> int:
    if profile.threads not in (None, wanted):
        raise InvalidOptionError(
            f"{path} is of a session with {format_count(profile.threads or 0, 'thread')}, not {wanted}",
            hint="leave --threads out: the profile tells",
        )
    return wanted


def _noting(threads: int) -> float:
    """What profiling adds to a kernel here: the least that one that does next to nothing takes in a profile."""
    short = Profiled(OVERHEADS[SHORT](), threads)
    for _ in range(PRACTICE):
        short.sample()
    _, warm = short.kernels()
    return max(0.0, warm["Relu"] - LEAST_SECONDS)
