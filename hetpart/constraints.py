"""What people type as constraints of a placement beside pins and budgets, read into records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hetpart.config import OpPattern, device_name, parse_pattern, parse_share
from hetpart.errors import InvalidOptionError
from hetpart.units import parse_bytes, parse_seconds

ColocateOption = Sequence[str] | str | None
"""What ``colocate=`` may be: every text is one set of ops."""
GainOption = str | None
HeadroomOption = str | int | None
NamesOption = Mapping[str, str] | Sequence[str] | str | None
"""What ``io=`` and ``state=`` may be: ``logits=cuda:0``, several of these, or a mapping."""

_COLOCATE_HINT = "write --colocate 'encoder.layer.0.*', or several patterns of one set: --colocate 'embed.*,op:Gather'"
_GAIN_HINT = "write --min-gain 5% or --min-gain 1ms"
_HEADROOM_HINT = "write --headroom 1GB or --headroom 10%"
_IO_HINT = "write --io logits=cuda:0, by the name of a graph input or output"
_STATE_HINT = "write --state past=present, a graph input and the graph output that replaces it, or --state auto"


@dataclass(frozen=True, slots=True)
class Colocation:
    """Every op that one of ``patterns`` matches runs on the same device as the others."""

    patterns: tuple[OpPattern, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Gain:
    """What one more cut must save at least: seconds, or a share of the latency without it."""

    seconds: float
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Headroom:
    """What is left free of every accelerator's budget: bytes, or a share of it."""

    amount: int | Fraction
    text: str

    def of(self, budget: int) -> int:
        """Bytes left free of ``budget``."""
        return self.amount if isinstance(self.amount, int) else int(budget * self.amount)

    def around(self, used: int) -> int:
        """The smallest budget that leaves ``used`` bytes."""
        return used + self.amount if isinstance(self.amount, int) else ceil(used / (1 - self.amount))


@dataclass(frozen=True, slots=True)
class Binding:
    """The graph input or output ``value`` lies on ``device``."""

    value: str
    device: str
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """The graph input stays, from run to run, on the device of what makes the graph output that replaces it."""

    given: str
    returned: str
    text: str


AUTO_STATE = State("", "", "auto")
"""Every pair whose names and shapes tell."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How finely a model may be cut."""

    max_partitions: int | None = None
    min_gain: Gain | None = None

    def __bool__(self) -> bool:
        return self != Limits()


@dataclass(frozen=True, slots=True)
class Constraints:
    """Everything but pins and budgets that a placement must keep to."""

    colocations: tuple[Colocation, ...] = ()
    bindings: tuple[Binding, ...] = ()
    states: tuple[State, ...] = ()
    limits: Limits = Limits()
    headroom: Headroom | None = None

    def options(self) -> dict[str, str]:
        """The options that say the same, by name; those that were not given are left out."""
        gain, most = self.limits.min_gain, self.limits.max_partitions
        texts = {
            "colocate": " ".join(colocation.text for colocation in self.colocations),
            "headroom": self.headroom.text if self.headroom else "",
            "io": " ".join(binding.text for binding in self.bindings),
            "max_partitions": "" if most is None else str(most),
            "min_gain": gain.text if gain else "",
            "state": " ".join(state.text for state in self.states),
        }
        return {name: text for name, text in texts.items() if text}


def parse_limits(max_partitions: int | None = None, min_gain: GainOption = None) -> Limits:
    """Both limits in one record.

    Raises:
        InvalidOptionError: the number is less than 1, or the gain neither a share nor a time.
    """
    if max_partitions is not None and max_partitions < 1:
        raise InvalidOptionError(f"max_partitions cannot be {max_partitions}", hint="it is a number from 1")
    return Limits(max_partitions, None if min_gain is None else _gain(str(min_gain).strip()))


def _gain(text: str) -> Gain:
    share = parse_share(text)
    if share is not None:
        if share >= 1:
            raise InvalidOptionError(f"no cut can save {text!r} of the latency", hint=_GAIN_HINT)
        return Gain(0.0, float(share), text)
    try:
        return Gain(parse_seconds(text), 0.0, text)
    except InvalidOptionError:
        raise InvalidOptionError(f"the gain {text!r} is neither a share nor a time", hint=_GAIN_HINT) from None


def parse_headroom(given: HeadroomOption) -> Headroom | None:
    """Bytes or a share of the budget that stay free.

    Raises:
        InvalidOptionError: it is neither, or all of the budget.
    """
    if given is None:
        return None
    text = str(given).strip()
    share = parse_share(text)
    if share is not None:
        if share >= 1:
            raise InvalidOptionError(f"the headroom {text!r} leaves nothing of the budget", hint=_HEADROOM_HINT)
        return Headroom(share, text)
    try:
        return Headroom(parse_bytes(text), text)
    except InvalidOptionError:
        raise InvalidOptionError(f"the headroom {text!r} is not a size", hint=_HEADROOM_HINT) from None


def parse_colocations(texts: ColocateOption) -> tuple[Colocation, ...]:
    """Sets of ops such as ``encoder.layer.0.*`` or ``embed.*,op:Gather``, one for each text.

    Raises:
        InvalidOptionError: a text has no pattern.
    """
    return tuple(_colocation(text) for text in ([texts] if isinstance(texts, str) else texts or ()))


def _colocation(text: str) -> Colocation:
    patterns = tuple(parse_pattern(part.strip()) for part in text.split(",") if part.strip())
    if not patterns or not all(pattern.pattern for pattern in patterns):
        raise InvalidOptionError(f"the colocation {text!r} has no pattern", hint=_COLOCATE_HINT)
    return Colocation(patterns, text)


def parse_bindings(given: NamesOption) -> tuple[Binding, ...]:
    """Graph inputs and outputs with their devices, such as ``logits=cuda:0``.

    Raises:
        InvalidOptionError: a text is not ``name=device``.
    """
    return tuple(
        Binding(name, device_name(device), text) for name, device, text in _pairs(given, "io", "name=device", _IO_HINT)
    )


def parse_states(given: NamesOption) -> tuple[State, ...]:
    """Graph inputs with the graph outputs that replace them, such as ``past=present``; ``auto`` is ``AUTO_STATE``.

    Raises:
        InvalidOptionError: a text is not ``input=output``.
    """
    if given == "auto" or (not isinstance(given, str) and list(given or ()) == ["auto"]):
        return (AUTO_STATE,)
    return tuple(State(*pair) for pair in _pairs(given, "state", "input=output", _STATE_HINT))


def _pairs(given: NamesOption, what: str, form: str, hint: str) -> list[tuple[str, str, str]]:
    if isinstance(given, Mapping):
        given = [f"{name}={other}" for name, other in given.items()]
    found: list[tuple[str, str, str]] = []
    for text in [given] if isinstance(given, str) else given or ():
        name, _, other = (part.strip() for part in text.rpartition("="))
        if not name or not other:
            raise InvalidOptionError(f"the {what} {text!r} is not {form}", hint=hint)
        found.append((name, other, text))
    return found
