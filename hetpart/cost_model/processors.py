"""The processor that a plan is made for: this machine's as it was calibrated, or one that a profile describes."""

from __future__ import annotations

import re
from dataclasses import replace

from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import Calibration
from hetpart.cost_model.detect import Processor, this_processor
from hetpart.cost_model.profiles import PEAK, Kind, Profile, find_profile, load_profile, profile_names
from hetpart.rates import KernelRates
from hetpart.units import format_percent

DEFAULT_PROCESSOR, DEFAULT_WIDE_PROCESSOR = "generic-2core", "generic-avx512"
NEWEST_XEON = "xeon-emr"
"""What is nearest to a Xeon with AMX that no profile names: a newer one, or one whose hypervisor hides its kind."""
THIS_PROCESSOR = "host"
NAMED = 4
"""Families that a machine's words name."""


def named_processor(name: str, threads: int) -> tuple[Profile, str]:
    """The profile of this name, or of this machine for ``host``, and words for it."""
    if name == THIS_PROCESSOR:
        return this_machines_processor(threads)
    profile = find_profile(name, Kind.CPU)
    return profile, profile.title


def this_machines_processor(threads: int) -> tuple[Profile, str]:
    """This machine's processor: as calibrated, else the profile its name or kind matches, on its cores and memory."""
    processor = this_processor()
    profile = matching_profile(f"{processor.name}, {processor.family}", Kind.CPU) or load_profile(_usual(processor))
    own = _as_detected(_on_cores(profile, processor.cores), processor)
    found = calibrated.load()
    own = own if found is None else _calibrated(own, found, threads)
    how = f"priced as {profile.name}" if found is None else _how_calibrated(profile.name, found, threads)
    return own, f"this machine's processor ({processor.name or 'unnamed'}, {processor.cores} cores, {how})"


def _usual(processor: Processor) -> str:
    """The profile of a processor that none matches."""
    if processor.amx:
        return NEWEST_XEON
    return DEFAULT_WIDE_PROCESSOR if processor.avx512 else DEFAULT_PROCESSOR


def _how_calibrated(name: str, found: Calibration, threads: int) -> str:
    rates = found.rates(threads)
    if rates is None:
        return f"priced as {name}: calibrated for {' and '.join(found.threads)} threads, not for {threads}"
    off = f"off by {format_percent(rates.error)} between the sizes measured"
    how = f"calibrated with ONNX Runtime {found.runtime}, {off}"
    impossible = calibrated.too_fast(rates)
    if impossible:
        return f"{how}; impossibly fast figures of {_few(impossible)}: calibrate --refine on a quieter machine"
    slow = calibrated.too_slow(rates)
    if slow:
        return f"{how}; figures of {_few(slow)} are too slow: calibrate --refine on a quieter machine"
    if (threads or found.cores) in calibrated.slower_together(found):
        return f"{how}; slower than one thread, as others had its cores: calibrate --refine on a quieter machine"
    return f"{how} while other work slowed it: calibrate --refine in a quieter hour" if rates.was_disturbed else how


def _few(families: tuple[str, ...]) -> str:
    few, more = ", ".join(families[:NAMED]), len(families) - NAMED
    return f"{few} and {more} more families" if more > 0 else few


def _calibrated(profile: Profile, found: Calibration, threads: int) -> Profile:
    """The figures and kernels that ``hetpart calibrate`` measured here, where it did with so many threads."""
    rates = found.rates(threads)
    if rates is None:
        return profile
    return replace(
        profile.with_figures(measured_figures(rates), f"hetpart calibrate, ONNX Runtime {found.runtime}"), rates=rates
    )


def at_work(processor: Profile, threads: int) -> Profile:
    """The processor as ``threads`` threads use it, if it has more cores; a calibration's rates are theirs already."""
    if not 0 < threads < processor.figures["cores"]:
        return processor
    if processor.rates is None:
        return _on_cores(processor, threads)
    return processor.with_figures({"cores": float(threads)}, f"{threads} threads")


def _on_cores(profile: Profile, cores: int) -> Profile:
    """A processor's profile with ``cores`` cores: all in proportion, but streams up to the memory's own limit.

    Lookups of single rows wait for memory and fill its channels less than streams do, so each core adds its own.
    """
    figures = profile.figures
    share = cores / figures["cores"]
    bandwidth = min(figures["bandwidth"], cores * figures["core_bandwidth"])
    scaled = {key: rate * share for key, rate in figures.items() if key.startswith(PEAK)} | {
        "cores": float(cores),
        "bandwidth": bandwidth,
        **{key: figures[key] * share for key in ("cache_bandwidth",) if key in figures},
        "random_bandwidth": min(figures["random_bandwidth"] * share, bandwidth),
    }
    sources = {key: f"{profile.sources.get(key, '')}; scaled to {cores} cores" for key in scaled}
    return profile.with_figures(scaled, sources)


def _as_detected(profile: Profile, processor: Processor) -> Profile:
    own = profile.with_figures({"channel_block": float(processor.channel_block)}, "flags of /proc/cpuinfo")
    if processor.memory_bytes is None:
        return own
    return own.with_figures({"memory_bytes": float(processor.memory_bytes)}, "MemTotal of /proc/meminfo")


def matching_profile(name: str, kind: Kind) -> Profile | None:
    """The profile whose patterns the name of a device holds."""
    for candidate in map(load_profile, profile_names(kind)):
        if any(re.search(pattern, name) for pattern in candidate.patterns):
            return candidate
    return None


def measured_figures(rates: KernelRates) -> dict[str, float]:
    """A profile's figures from what was measured."""
    return {
        "bandwidth": rates.bandwidth,
        "bandwidth_efficiency": 1.0,
        "efficiency": 1.0,
        "launch_seconds": rates.launch_seconds,
        "random_bandwidth": rates.random_bandwidth,
        "session_seconds": rates.session_seconds,
        **{f"{PEAK}.{dtype}": rate for dtype, rate in rates.peak_flops.items()},
    }
