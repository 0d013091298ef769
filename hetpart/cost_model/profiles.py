"""Hardware profiles: figures with their sources, read from the TOML files beside this module or from a user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from math import isfinite
from pathlib import Path
from typing import cast

from hetpart.devices import CHANNEL_BLOCK, Device, Link, Provider
from hetpart.errors import InvalidOptionError
from hetpart.graph.ir import DTYPE_BITS
from hetpart.rates import KernelRates

HARDWARE = Path(__file__).parent / "hardware"
PEAK = "peak_flops"
NO_SOURCE = "stated without a source"
FILE_HINT = 'write a line for each figure under [[accelerator]] with profile = "l4"; docs/hardware.md shows one'


class Kind(StrEnum):
    """What a profile describes."""

    ACCELERATOR = "accelerator"
    CPU = "cpu"
    LINK = "link"


_SHOWN = 3
"""Near names in a hint."""
_LIKE = 0.5
"""How alike a name has to be for that."""
WORDS: Mapping[Kind, str] = {Kind.ACCELERATOR: "an accelerator", Kind.CPU: "a CPU", Kind.LINK: "a link"}
HEADER = ("kind", "title", "aliases", "patterns", "provider", "link", "profile", "cpu", "name")
"""Keys of a profile that are words, not figures."""

_COMMON = ("memory_bytes", "launch_seconds", "session_seconds", "session_bytes")
_RATES = ("bandwidth", "random_bandwidth", "efficiency", "bandwidth_efficiency", "peak_flops.float32")
_NEVER_ZERO = (
    "bandwidth", "bandwidth_back", "efficiency", "pageable_bandwidth", "pageable_bandwidth_back", "random_bandwidth",
)  # fmt: skip
_COUNTED = {"channel_block": "channels", "cores": "cores"}
_SHARES = ("efficiency", "bandwidth_efficiency")
REQUIRED: Mapping[Kind, tuple[str, ...]] = {
    Kind.ACCELERATOR: (*_COMMON, *_RATES),
    Kind.CPU: (*_COMMON, *_RATES, "cores", "core_bandwidth"),
    Kind.LINK: ("bandwidth", "pageable_bandwidth", "latency"),
}
"""Figures a profile must have to be used. ``speed_factor`` stands for an accelerator's rates: the host's times it."""
BACK = "_back"
"""Ends the name of a link's figure on the way to the host, where that is another than on the way from it."""
OPTIONAL: Mapping[Kind, tuple[str, ...]] = {
    Kind.ACCELERATOR: ("cache_bandwidth", "cache_bytes", "channel_block", "clock", "cores"),
    Kind.CPU: ("cache_bandwidth", "cache_bytes", "channel_block", "clock"),
    Kind.LINK: tuple(key + BACK for key in REQUIRED[Kind.LINK]),
}
"""Figures a profile may have beside those. An accelerator has cores and a clock where it is emulated."""
USUAL_CLOCK = 2.5e9
"""Cycles/s of a processor whose profile says none: an estimate, as of a usual cloud machine."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One device or link as data. Figures are flat: ``bandwidth``, ``peak_flops.float16``."""

    name: str
    kind: Kind
    title: str
    aliases: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """Regular expressions that the driver's or the processor's own name matches."""
    provider: Provider = Provider.CUDA
    link: str = ""
    """Name of the link an accelerator hangs on by default."""
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    rates: KernelRates | None = None
    """What a calibration measured of its kernels."""

    def with_figures(self, figures: Mapping[str, float], source: str | Mapping[str, str]) -> Profile:
        """The same profile with some figures replaced, and where they come from."""
        sources = dict.fromkeys(figures, source) if isinstance(source, str) else source
        return replace(self, figures={**self.figures, **figures}, sources={**self.sources, **sources})

    def require(self) -> None:
        """Raise InvalidOptionError where a figure this kind needs is missing or is not a positive number."""
        missing = [key for key in REQUIRED[self.kind] if key not in self.figures]
        if missing:
            raise InvalidOptionError(
                f"hardware profile {self.name!r} lacks {', '.join(missing)}",
                hint='add the figures, or start from a known profile with `profile = "l4"`',
            )
        for key, value in self.figures.items():
            if value < 0 or (value == 0 and key in _NEVER_ZERO):
                raise InvalidOptionError(f"hardware profile {self.name!r}: {key} = {value} is not a usable figure")


def _fault(key: str, value: float) -> str:
    """Why a figure cannot be that; ``""`` where it can."""
    dtype = key.removeprefix(f"{PEAK}.")
    if not isfinite(value):
        return "which is no number"
    if key in _SHARES and not 0 < value <= 1:
        return "and a share is above 0 and at most 1"
    if key in _COUNTED and (value < 1 or value != int(value)):
        return f"and {_COUNTED[key]} are counted from 1"
    return "" if dtype == key or dtype in DTYPE_BITS else f"and there is no type {dtype!r}"


@cache
def load_profile(stem: str) -> Profile:
    """The profile whose file is called ``stem``."""
    return profile_of(stem, read_toml(HARDWARE / f"{stem}.toml"))


def profile_names(kind: Kind | None = None) -> tuple[str, ...]:
    """Exact names of the profiles that come with hetpart, sorted."""
    stems = sorted(path.stem for path in HARDWARE.glob("*.toml"))
    return tuple(stem for stem in stems if kind is None or load_profile(stem).kind is kind)


def find_profile(name: str, kind: Kind) -> Profile:
    """The profile called ``name`` exactly or by an alias.

    Raises:
        InvalidOptionError: there is none of this kind; the hint lists close names.
    """
    candidates = [load_profile(stem) for stem in profile_names()]
    for profile in candidates:
        if name.lower() in (profile.name, *profile.aliases) and profile.kind is kind:
            return profile
    raise _unknown(name, kind, candidates)


def no_profile(name: str) -> InvalidOptionError:
    """No profile of any kind is called ``name``; the hint lists those that are called nearly so."""
    profiles = [load_profile(stem) for stem in profile_names()]
    names = [known for profile in profiles for known in (profile.name, *profile.aliases)]
    near = get_close_matches(name.lower(), names, _SHOWN, _LIKE)
    hint = f"near: {', '.join(near)}; `hetpart hardware` lists all" if near else "`hetpart hardware` lists all names"
    return InvalidOptionError(f"no hardware profile is called {name!r}", hint=hint)


def _unknown(name: str, kind: Kind, candidates: list[Profile]) -> InvalidOptionError:
    names = {known: profile.kind for profile in candidates for known in (profile.name, *profile.aliases)}
    asked = [known for known in names if names[known] is kind]
    others = [] if name.lower() in names else list(names)
    near, far = (get_close_matches(name.lower(), of, _SHOWN, _LIKE) for of in (asked, others))
    what = f"is {WORDS[names[name.lower()]]}, not" if name.lower() in names else "is not the name of"
    hint = (
        f"near: {', '.join(near or far)}"
        if near or far
        else f"known: {', '.join(sorted(known.name for known in candidates if known.kind is kind))}"
    )
    return InvalidOptionError(
        f"{name!r} {what} {WORDS[kind]}",
        hint=f"{hint}; `hetpart hardware` lists all. Write ACCELERATOR[+CPU[+LINK]] or the path of a TOML file",
    )


def read_toml(path: Path) -> dict[str, object]:
    """Content of a TOML file. Raises InvalidOptionError where it cannot be read."""
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidOptionError(
            f"cannot read the hardware file {path}: {error.strerror}",
            hint="give the path of a TOML file, or a profile's name: `hetpart hardware` lists them",
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidOptionError(f"the hardware file {path} is not TOML: {error}", hint=FILE_HINT) from error


def profile_of(name: str, table: Mapping[str, object]) -> Profile:
    """A profile from its TOML table."""
    try:
        kind = Kind(str(table["kind"]))
        provider = Provider(str(table.get("provider", Provider.CUDA)))
    except (KeyError, ValueError) as error:
        raise InvalidOptionError(f"hardware profile {name!r}: {error} is not a kind or provider") from error
    figures, sources = figures_of(table)
    return Profile(
        name=name,
        kind=kind,
        title=str(table.get("title", name)),
        aliases=_words(table.get("aliases")),
        patterns=_words(table.get("patterns")),
        provider=provider,
        link=str(table.get("link", "")),
        figures=figures,
        sources=sources,
    )


def figures_of(table: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    """Figures and their sources in a TOML table. A figure is a number, or ``{ value = …, source = "…" }``.

    Raises:
        InvalidOptionError: something in it is neither, or cannot be.
    """
    figures: dict[str, float] = {}
    sources: dict[str, str] = {}
    for key, entry in _flat(table):
        figure = cast("dict[str, object]", entry) if isinstance(entry, dict) else {"value": entry}
        value = figure.get("value")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidOptionError(f"hardware figure {key!r} is {entry!r}, not a number", hint=FILE_HINT)
        fault = _fault(key, value)
        if fault:
            raise InvalidOptionError(f"hardware figure {key!r} is {value:g}, {fault}", hint=FILE_HINT)
        figures[key], sources[key] = float(value), str(figure.get("source", NO_SOURCE))
    return figures, sources


def _flat(table: Mapping[str, object]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, entry in table.items():
        if key == PEAK and isinstance(entry, dict):
            rates = cast("dict[str, object]", entry)
            rows.extend((f"{PEAK}.{dtype}", rate) for dtype, rate in rates.items())
        elif key not in HEADER:
            rows.append((key, entry))
    return rows


def _words(entry: object) -> tuple[str, ...]:
    return tuple(str(word) for word in cast("list[object]", entry)) if isinstance(entry, list) else ()


def device_of(profile: Profile, name: str, threads: int = 0) -> Device:
    """The device called ``name`` that ``profile`` describes."""
    profile.require()
    figures = profile.figures
    return Device(
        name=name,
        model=profile.name,
        provider=profile.provider,
        memory_bytes=int(figures["memory_bytes"]),
        peak_flops={key.removeprefix(f"{PEAK}."): rate for key, rate in figures.items() if key.startswith(PEAK)},
        bandwidth=figures["bandwidth"],
        random_bandwidth=figures["random_bandwidth"],
        launch_seconds=figures["launch_seconds"],
        session_seconds=figures["session_seconds"],
        session_bytes=int(figures["session_bytes"]),
        efficiency=figures["efficiency"],
        bandwidth_efficiency=figures["bandwidth_efficiency"],
        threads=threads,
        clock=figures.get("clock", USUAL_CLOCK if profile.kind is Kind.CPU else 0.0),
        cores=max(1, int(figures.get("cores", 1))),
        cache_bytes=int(figures.get("cache_bytes", 0)),
        cache_bandwidth=figures.get("cache_bandwidth", 0.0),
        channel_block=int(figures.get("channel_block", CHANNEL_BLOCK)),
        sources=dict(profile.sources),
        rates=profile.rates,
    )


def links_of(profile: Profile, host: str, accelerator: str) -> tuple[Link, Link]:
    """The link from the host to an accelerator, and the one back."""
    profile.require()
    back = {key: profile.figures.get(key + BACK, profile.figures[key]) for key in REQUIRED[Kind.LINK]}
    return _link(host, accelerator, profile.figures), _link(accelerator, host, back)


def _link(source: str, target: str, figures: Mapping[str, float]) -> Link:
    # No copy is faster than the link itself, also where a user states the link's own rate alone.
    pageable = min(figures["bandwidth"], figures["pageable_bandwidth"])
    return Link(source, target, figures["bandwidth"], figures["latency"], pageable)
