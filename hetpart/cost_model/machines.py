"""Which machine a plan is made for: a specification of profiles, a TOML file, or what this machine has.

A specification is ``ACCELERATOR[+CPU[+LINK]]``, such as ``l4``, ``h100+epyc`` or ``rtx-4090+ryzen+pcie4``. A CPU
left out is this machine's, as is ``host`` in its place; a link left out is the one the accelerator comes with.

A TOML file says the same with figures of its own. Whatever it leaves out comes from the profile it names::

    name = "my-box"

    [host]                                # left out: this machine's processor
    profile = "epyc"
    memory_bytes = 64_000_000_000

    [[accelerator]]                       # cuda:0; further ones are cuda:1, …
    profile = "l4"
    bandwidth = { value = 240e9, source = "measured" }
    peak_flops.float32 = 30e12
    link = { profile = "pcie4", pageable_bandwidth = 6e9 }      # or link = "pcie4"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import AcceleratorCalibration
from hetpart.cost_model.detect import DriverGpu, driver_gpus
from hetpart.cost_model.processors import (
    THIS_PROCESSOR,
    at_work,
    matching_profile,
    measured_figures,
    named_processor,
    this_machines_processor,
)
from hetpart.cost_model.profiles import (
    BACK,
    FILE_HINT,
    OPTIONAL,
    PEAK,
    USUAL_CLOCK,
    Kind,
    Profile,
    device_of,
    figures_of,
    find_profile,
    links_of,
    load_profile,
    profile_names,
    read_toml,
)
from hetpart.devices import Link, Machine, Provider
from hetpart.errors import InvalidOptionError

__all__ = ["free_memory_bytes", "is_specification", "load_machine", "profile_names"]

DEFAULT_ACCELERATOR = "l4"
SPEED_FACTOR = "speed_factor"
_SAME_FIGURES = ("cores", "cache_bytes", "channel_block")
_SHARED_FIGURES = ("bandwidth", "random_bandwidth", "efficiency", "bandwidth_efficiency")


def load_machine(spec: str | os.PathLike[str] | None = None, *, threads: int = 0) -> Machine:
    """The machine ``spec`` describes, with ``threads`` threads on the host (0: as many as it has cores).

    Without ``spec``: the GPU the driver names, or ``l4`` where there is none, with this machine's processor.

    Raises:
        InvalidOptionError: a profile is unknown, or the file cannot be understood.
    """
    if spec is None:
        return _this_machine(threads)
    text = os.fspath(spec)
    if _is_file(text):
        return _from_file(Path(text), threads)
    return _from_names(text, threads)


def is_specification(text: str) -> bool:
    """Whether ``text`` speaks of a machine: of a file, or of more than one name."""
    return _is_file(text) or "+" in text


def _is_file(text: str) -> bool:
    return text.endswith(".toml") or os.sep in text


def free_memory_bytes(machine: Machine) -> int | None:
    """Bytes that are free now on the machine's first accelerator; None where no driver can tell."""
    if not machine.accelerators:
        return None
    accelerator = machine.accelerators[0]
    if accelerator.provider is Provider.CPU:
        return accelerator.memory_bytes
    gpus = driver_gpus()
    return gpus[0].free_bytes if gpus else None


def _this_machine(threads: int) -> Machine:
    gpus = driver_gpus()
    processor, words = this_machines_processor(threads)
    if not gpus:
        accelerator = load_profile(DEFAULT_ACCELERATOR)
        return _assemble(
            processor, [(accelerator, load_profile(accelerator.link))], threads,
            f"no --hardware given and no NVIDIA GPU answers here, so {accelerator.title} is assumed, with {words}",
        )  # fmt: skip
    accelerator, gpu_words = _driver_profile(gpus[0])
    link = load_profile(accelerator.link)
    found = calibrated.load()
    measured = None if found is None else found.accelerator
    if found is not None and measured is not None and measured.name == gpus[0].name:
        accelerator, link = _measured_accelerator(accelerator, link, measured, found.runtime)
        gpu_words += f", calibrated with ONNX Runtime {found.runtime}"
    return _assemble(processor, [(accelerator, link)], threads, f"{gpu_words}, with {words}")


def _driver_profile(gpu: DriverGpu) -> tuple[Profile, str]:
    """The profile of a GPU by its driver's name for it; ``l4``'s rates with its own memory where none matches."""
    profile = matching_profile(gpu.name, Kind.ACCELERATOR)
    words = f"the GPU its driver names, {gpu.name}"
    if profile is None:
        profile = load_profile(DEFAULT_ACCELERATOR)
        words += f", which no profile knows: its memory is its own, its rates are those of {profile.name}"
    memory = {"memory_bytes": float(gpu.memory_bytes)}
    return profile.with_figures(memory, "the driver's memory.total"), words


def _measured_accelerator(
    accelerator: Profile, link: Profile, measured: AcceleratorCalibration, runtime: str
) -> tuple[Profile, Profile]:
    """A GPU's profile and its link's with what ``hetpart calibrate`` measured of them here."""
    source = f"hetpart calibrate, ONNX Runtime {runtime}"
    rates = measured.rates
    own = replace(accelerator.with_figures(measured_figures(rates), source), rates=rates)
    ways = {"": True, BACK: False}
    figures = {
        key + suffix: measured.bandwidth(inwards=inwards, pinned=pinned)
        for suffix, inwards in ways.items()
        for key, pinned in (("bandwidth", True), ("pageable_bandwidth", False))
    }
    return own, link.with_figures({**figures, "latency": measured.latency}, source)


def _from_names(spec: str, threads: int) -> Machine:
    parts = spec.split("+")
    if len(parts) > 3 or not all(parts):
        raise InvalidOptionError(
            f"hardware {spec!r} has {len(parts)} parts, of which none may be empty",
            hint="write ACCELERATOR[+CPU[+LINK]], such as h100+epyc+pcie5, or the path of a TOML file",
        )
    accelerator = find_profile(parts[0], Kind.ACCELERATOR)
    processor, words = named_processor(parts[1] if len(parts) > 1 else THIS_PROCESSOR, threads)
    link = find_profile(parts[2], Kind.LINK) if len(parts) > 2 else _own_link(accelerator, processor)
    origin = f"--hardware {spec}: {accelerator.title} with {words} over {link.title}"
    return _assemble(processor, [(accelerator, link)], threads, origin)


def _own_link(accelerator: Profile, processor: Profile) -> Profile:
    """The link that the accelerator comes with. An emulated one's is the host's memory, where that is calibrated."""
    link = load_profile(accelerator.link)
    found = calibrated.load() if SPEED_FACTOR in accelerator.figures and processor.rates is not None else None
    if found is None:
        return link
    rates = dict.fromkeys(("bandwidth", "pageable_bandwidth"), found.link_bandwidth)
    source = f"hetpart calibrate, ONNX Runtime {found.runtime}"
    return link.with_figures({**rates, "latency": found.link_seconds}, source)


def _from_file(path: Path, threads: int) -> Machine:
    table = read_toml(path)
    unknown = sorted(set(table) - {"name", "host", "accelerator"})
    if unknown:
        raise InvalidOptionError(f"{path}: unknown key {', '.join(unknown)}", hint="known: name, host, accelerator")
    host = _table(table.get("host", {}), path)
    processor = _adjusted(named_processor(str(host.get("profile", THIS_PROCESSOR)), threads)[0], host)
    entries = table.get("accelerator", [])
    rows = [_table(row, path) for row in cast("list[object]", entries)] if isinstance(entries, list) else []
    if not rows:
        raise InvalidOptionError(f"{path} describes no accelerator", hint='add [[accelerator]] with profile = "l4"')
    machine = _assemble(processor, [_accelerator_row(row, path) for row in rows], threads, f"--hardware {path}")
    return replace(machine, name=str(table.get("name", path.stem)))


def _accelerator_row(row: Mapping[str, object], path: Path) -> tuple[Profile, Profile]:
    accelerator = find_profile(str(row.get("profile", DEFAULT_ACCELERATOR)), Kind.ACCELERATOR)
    entry = row.get("link", accelerator.link)
    link_table = {"profile": entry} if isinstance(entry, str) else _table(entry, path)
    link = find_profile(str(link_table.get("profile", accelerator.link)), Kind.LINK)
    return _adjusted(accelerator, row), _adjusted(link, link_table)


def _adjusted(profile: Profile, table: Mapping[str, object]) -> Profile:
    figures, sources = figures_of(table)
    known_keys = {*profile.figures, *OPTIONAL[profile.kind]}
    unknown = sorted(key for key in figures if not (key in known_keys or key.startswith(PEAK)))
    if unknown:
        known = ", ".join(sorted(known_keys))
        raise InvalidOptionError(f"{profile.name} has no figure {', '.join(unknown)}", hint=f"known: {known}")
    # What a user states of one way alone holds for both: the profile's own figure of the way back gives place to it.
    both_ways = [key for key in figures if key + BACK in profile.figures and key + BACK not in figures]
    figures |= {key + BACK: figures[key] for key in both_ways}
    sources |= {key + BACK: sources[key] for key in both_ways}
    return profile.with_figures(figures, sources)


def _table(entry: object, path: Path) -> dict[str, object]:
    if not isinstance(entry, dict):
        raise InvalidOptionError(f"{path}: {entry!r} is not a table", hint=FILE_HINT)
    return cast("dict[str, object]", entry)


def _assemble(processor: Profile, accelerators: list[tuple[Profile, Profile]], threads: int, origin: str) -> Machine:
    working = at_work(processor, threads)
    host = device_of(working, "cpu", threads)
    devices = [host]
    links: list[Link] = []
    for position, (accelerator, link) in enumerate(accelerators):
        devices.append(device_of(_rated(accelerator, working), f"cuda:{position}"))
        links.extend(links_of(link, host.name, devices[-1].name))
    name = "+".join([accelerators[0][0].name, processor.name, accelerators[0][1].name])
    return Machine(name, tuple(devices), tuple(links), origin)


def _rated(accelerator: Profile, processor: Profile) -> Profile:
    """An accelerator whose rates are stated as the host's at work times a factor, with those rates filled in."""
    factor = accelerator.figures.get(SPEED_FACTOR)
    if factor is None:
        return accelerator
    rates = {key: rate for key, rate in processor.figures.items() if key.startswith(PEAK)}
    rates |= {key: processor.figures[key] for key in _SHARED_FIGURES}
    rates |= {key: figure for key, figure in processor.figures.items() if key == "cache_bandwidth"}
    rates["clock"] = processor.figures.get("clock", USUAL_CLOCK)
    sped = {key: rate if "efficiency" in key else rate * factor for key, rate in rates.items()}
    sped |= {key: figure for key, figure in processor.figures.items() if key in _SAME_FIGURES}
    own = accelerator.with_figures(sped, f"{factor:g} times {processor.name}'s")
    if processor.rates is None:
        return own
    # The run is handed to its lane and back.
    session = {"session_seconds": processor.rates.session_seconds + 2 * processor.rates.hop_seconds}
    timed = own.with_figures(session, processor.sources["session_seconds"])
    return replace(timed, rates=processor.rates.times(factor))
