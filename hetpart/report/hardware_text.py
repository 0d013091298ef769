"""Hardware profiles and machines as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hetpart.cost_model.machines import is_specification, load_machine
from hetpart.cost_model.profiles import PEAK, Kind, Profile, load_profile, no_profile, profile_names
from hetpart.devices import Device, Link, Machine
from hetpart.report.json import to_json
from hetpart.report.layout import heading, labelled, line, name, table
from hetpart.units import format_bytes, format_seconds

_TITLES = {Kind.ACCELERATOR: "Accelerators", Kind.CPU: "CPUs", Kind.LINK: "Links"}
_DEVICE_HEADERS = ("name", "also", ">memory", ">bandwidth", ">float32", "what it is")
_HEADERS = {
    Kind.ACCELERATOR: _DEVICE_HEADERS,
    Kind.CPU: _DEVICE_HEADERS,
    Kind.LINK: ("name", ">pageable", ">pinned", ">latency", "what it is"),
}
_LINK_FIGURES = ("pageable_bandwidth", "bandwidth", "latency")
_COPIES = "from and to pageable memory, as hetpart copies, and pinned"
_FLOAT32 = f"{PEAK}.float32"
_FLOPS_UNITS = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"))


@dataclass(frozen=True, slots=True)
class Described:
    """The same hardware for people and for scripts."""

    parts: Iterator[RenderableType]
    content: dict[str, Any]


def describe_hardware(name: str | None = None) -> Described:
    """The profile called ``name``, else the machine it specifies; every profile where it is not given.

    Raises:
        InvalidOptionError: ``name`` is neither.
    """
    profiles = [load_profile(stem) for stem in profile_names()]
    if name is None:
        default = load_machine()
        content = {"default": to_json(default), "profiles": [to_json(profile) for profile in profiles]}
        return Described(profiles_parts(profiles, default), content)
    for profile in profiles:
        if name.lower() in (profile.name, *profile.aliases):
            return _described(profile)
    if not is_specification(name):
        raise no_profile(name)
    machine = load_machine(name)
    return Described(machine_parts(machine), {"machine": to_json(machine)})


def _described(profile: Profile) -> Described:
    """A profile, and what is planned with on this machine where it names an accelerator: calibration counts there."""
    if profile.kind is not Kind.ACCELERATOR:
        return Described(profile_parts(profile), {"profile": to_json(profile)})
    machine = load_machine(profile.name)
    content = {"profile": to_json(profile), "machine": to_json(machine)}
    return Described(chain(profile_parts(profile), [Text()], machine_parts(machine)), content)


def profiles_parts(profiles: Sequence[Profile], default: Machine) -> Iterator[RenderableType]:
    """Every profile by kind, and which machine a plan is made for where none is named."""
    yield labelled([("Default", Text.assemble(name(default.name, "bold"), " – ", name(default.origin)))])
    for kind, title in _TITLES.items():
        rows = [profile for profile in profiles if profile.kind is kind]
        yield heading(title, _COPIES if kind is Kind.LINK else "")
        yield table(_HEADERS[kind], [_row(profile) for profile in rows])
    yield heading("Name one with --hardware ACCELERATOR[+CPU[+LINK]], such as h100+epyc.")


def _row(profile: Profile) -> tuple[str | Text, ...]:
    if profile.kind is Kind.LINK:
        values = [_figure(key, profile.figures[key]) for key in _LINK_FIGURES]
        return (name(profile.name, "bold"), *values, name(profile.title))
    keys = ("memory_bytes", "bandwidth", _FLOAT32)
    values = [_figure(key, profile.figures[key]) if key in profile.figures else "–" for key in keys]
    return (name(profile.name, "bold"), name(", ".join(profile.aliases)), *values, name(profile.title))


def profile_parts(profile: Profile) -> Iterator[RenderableType]:
    """Every figure of ``profile`` with its source."""
    yield labelled([("Profile", Text.assemble(name(profile.name, "bold"), " – ", name(profile.title)))])
    also = [("Also", name(", ".join(profile.aliases)))] if profile.aliases else []
    link = [("Link", name(profile.link))] if profile.link else []
    yield labelled([*also, *link, ("Kind", Text(profile.kind))])
    yield Text()
    yield table(
        ("figure", ">value", "source"),
        [
            (name(key), _figure(key, value), name(profile.sources.get(key, "")))
            for key, value in sorted(profile.figures.items())
        ],
    )


def _figure(key: str, value: float) -> str:
    if key.startswith(PEAK):
        return _flops(value)
    if "bandwidth" in key and "efficiency" not in key:
        return _rate(value)
    if key.endswith("_bytes"):
        return format_bytes(value)
    return format_seconds(value) if key.endswith("_seconds") or key.startswith("latency") else f"{value:g}"


def _rate(value: float) -> str:
    return f"{format_bytes(value)}/s"


def _flops(value: float) -> str:
    scale, unit = next((row for row in _FLOPS_UNITS if value >= row[0]), (1.0, "FLOP/s"))
    return f"{value / scale:.3g} {unit}"


def machine_parts(machine: Machine) -> Iterator[RenderableType]:
    """The devices and links of ``machine`` as plans see them."""
    yield labelled([("Machine", Text.assemble(name(machine.name, "bold"), " – ", name(machine.origin)))])
    yield heading("Devices")
    headers = ("device", "profile", ">memory", ">bandwidth", ">float32", ">launch", ">session")
    yield table(headers, [_device_row(device) for device in machine.devices])
    yield heading("Links", _COPIES)
    rows = [_link_row(link) for link in machine.links]
    if rows:
        yield table(("from", "to", ">pageable", ">pinned", ">latency"), rows)
    else:
        yield line("There is one device, and nothing to link.")


def _device_row(device: Device) -> tuple[str | Text, ...]:
    return (
        name(device.name, "bold"),
        name(device.model),
        format_bytes(device.memory_bytes),
        _rate(device.bandwidth),
        _flops(device.peak_flops.get("float32", 0.0)),
        format_seconds(device.launch_seconds),
        format_seconds(device.session_seconds),
    )


def _link_row(link: Link) -> tuple[str | Text, ...]:
    rates = _rate(link.copy_bandwidth), _rate(link.bandwidth)
    return (name(link.source), name(link.target), *rates, format_seconds(link.latency))
