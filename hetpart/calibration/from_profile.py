"""Refit a calibration to a real run: what ONNX Runtime's profile says of every kernel, against what the tables say.

A profile tells a kernel's op type, the shapes of its operands and its time; its attributes and the weights that ONNX
Runtime packed for it are left out. What shapes leave open is not guessed: such kernels do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec

from hetpart.calibration.families import FAMILIES
from hetpart.calibration.probes import OVERHEADS, SHORT
from hetpart.calibration.profiled_calls import ProfiledCall, ProfiledKernel, Tensor, kernel_calls
from hetpart.calibration.timing import Profiled
from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import Calibration
from hetpart.cost_model.call_seconds import call_seconds
from hetpart.cost_model.kernel_calls import STREAMED
from hetpart.devices import Provider
from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.rates import LEAST_SECONDS, KernelRates
from hetpart.units import format_count

LEAST_TOLD = 1e-5
"""A profile counts whole microseconds: kernels that take less, and should, tell nothing."""
FARTHEST = 100.0
"""A run that took so many times what was measured here, or so small a part, is of another machine or was edited."""
PRACTICE = 100
_KERNEL = "_kernel_time"
_PROFILE_HINT = "a session with `enable_profiling` writes one, which is whole after `session.end_profiling()`"


_Shapes = list[dict[str, list[Annotated[int, msgspec.Meta(ge=0)]]]]


class _Arguments(msgspec.Struct):
    """What a kernel's event says of it."""

    op_name: str = ""
    provider: str = ""
    node_index: str = ""
    parameter_size: str = "0"
    input_type_shape: _Shapes = msgspec.field(default_factory=_Shapes)
    output_type_shape: _Shapes = msgspec.field(default_factory=_Shapes)
    thread_scheduling_stats: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Event(msgspec.Struct):
    cat: str = ""
    name: str = ""
    dur: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    args: _Arguments = msgspec.field(default_factory=_Arguments)


@dataclass(frozen=True, slots=True)
class FamilyFit:
    """What a profile says of one family."""

    family: str
    kernels: int
    factor: float
    """Median of measured to predicted seconds, by which the family's tables were multiplied."""


@dataclass(frozen=True, slots=True)
class Refit:
    """A calibration refitted to a run."""

    calibration: Calibration
    threads: int
    families: tuple[FamilyFit, ...]
    left_out: int
    """Kernels that tell nothing of a family."""


@dataclass(frozen=True, slots=True)
class RunProfile:
    """What ONNX Runtime wrote of the CPU provider's kernels."""

    kernels: tuple[ProfiledKernel, ...]
    """In the order they ran."""
    threads: int | None
    """``None`` where the profile does not tell."""


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
            hint="profile a model of float32 products, convolutions or elementwise ops that take 10 µs or more each",
        )
    _require_likely(path, refitted.families)
    return refitted


def _require_likely(path: Path, fits: Sequence[FamilyFit]) -> None:
    """Refuse what would spoil a calibration: no load makes a family so slow, nothing so fast."""
    for fit in fits:
        if not 1 / FARTHEST <= fit.factor <= FARTHEST:
            raise InvalidOptionError(
                f"{fit.family} took {fit.factor:.3g} times in {path} what was measured here",
                hint="profile a run on this machine; `hetpart calibrate` measures it anew if it changed so much",
            )


def read_profile(path: Path) -> RunProfile:
    """The CPU provider's kernels in a profile, each with its median over all runs but the first.

    Raises:
        InvalidOptionError: it cannot be read, or is no profile.
    """
    try:
        events = msgspec.json.decode(path.read_bytes(), type=list[_Event])
        kernels = _kernels(events)
    except OSError as error:
        raise InvalidOptionError(f"the profile {path} cannot be read: {error.strerror}", hint=_PROFILE_HINT) from error
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidOptionError(
            f"{path} is no profile that ONNX Runtime wrote: {error}", hint=_PROFILE_HINT
        ) from error
    if not kernels:
        raise InvalidOptionError(f"{path} speaks of no kernel of the CPU provider", hint=_PROFILE_HINT)
    return RunProfile(kernels, max((n for n in map(_event_threads, events) if n is not None), default=None))


def refit(found: Calibration, kernels: Sequence[ProfiledKernel], threads: int, noting: float) -> Refit:
    """``found`` with every family's tables at ``threads`` threads scaled to what its kernels took.

    Args:
        found: What was measured before.
        kernels: Of a run, in order.
        threads: Of the run.
        noting: Seconds that profiling itself adds to a kernel.
    """
    rates = _rates(found, threads)
    ratios: dict[str, list[float]] = {}
    for call in kernel_calls(kernels):
        ratio = _ratio(call, call.seconds - noting, rates)
        if ratio is not None:
            ratios.setdefault(call.call.family, []).append(ratio)
    fits = tuple(FamilyFit(name, len(those), median(those)) for name, those in sorted(ratios.items()))
    scaled = _scaled(rates, {fit.family: fit.factor for fit in fits})
    calibration = replace(found, threads={**found.threads, str(threads): scaled})
    return Refit(calibration, threads, fits, len(kernels) - sum(fit.kernels for fit in fits))


def _ratio(profiled: ProfiledCall, seconds: float, rates: KernelRates) -> float | None:
    """Measured to predicted; nothing where the clock or the memory's rate decides and not the table."""
    untouched = replace(profiled.around, touched=0)
    predicted, by_table = (call_seconds(profiled.call, rates, around) for around in (profiled.around, untouched))
    if predicted > by_table:
        return None
    # Tables of kernels measured end to end hold the start of a kernel, which the profile's own cost covers.
    started = seconds + (rates.launch_seconds if profiled.call.family in FAMILIES else 0.0)
    measured = max(LEAST_SECONDS, started)
    return measured / predicted if max(measured, predicted) >= LEAST_TOLD else None


def _scaled(rates: KernelRates, factors: Mapping[str, float]) -> KernelRates:
    if "gemm" in factors:
        factors = {**factors, STREAMED: factors["gemm"]}
    return replace(
        rates,
        tables={name: table.times(factors.get(name, 1.0)) for name, table in rates.tables.items()},
        warm_tables={name: table.times(factors.get(name, 1.0)) for name, table in rates.warm_tables.items()},
    )


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


@dataclass(slots=True)
class _Node:
    """A node's events as they are met."""

    arguments: _Arguments
    seconds: list[float] = field(default_factory=list[float])

    def kernel(self) -> ProfiledKernel:
        """The first run allocates what later ones find, and does not count where there are others."""
        said = self.arguments
        inputs, outputs = _tensors(said.input_type_shape), _tensors(said.output_type_shape)
        seconds = median(self.seconds[1:] or self.seconds)
        return ProfiledKernel(said.op_name, inputs, outputs, int(said.parameter_size), seconds)


def _kernels(events: Sequence[_Event]) -> tuple[ProfiledKernel, ...]:
    nodes: dict[tuple[str, str], _Node] = {}
    for event in events:
        if event.cat == "Node" and event.name.endswith(_KERNEL) and event.args.provider == Provider.CPU:
            node = nodes.setdefault((event.args.node_index, event.name), _Node(event.args))
            node.seconds.append(event.dur * 1e-6)
    return tuple(node.kernel() for node in nodes.values())


def _tensors(said: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(Tensor.of(dtype, tuple(shape)) for one in said for dtype, shape in one.items())


def _event_threads(event: _Event) -> int | None:
    """Threads of the pool that ran a kernel; one without a pool is told by an empty text."""
    said = bytes(event.args.thread_scheduling_stats)
    if not said:
        return None
    # All threads that had nothing to do have one name, so that a mapping would hold one of them.
    return 1 + said.count(b'"num_run"')
