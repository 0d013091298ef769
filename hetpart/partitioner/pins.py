"""Pins: ops that the user has placed already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import accumulate

from hetpart.config import OpPattern, Pin, PinKind, known_device
from hetpart.devices import Machine
from hetpart.errors import InvalidOptionError, UnmatchedPatternError
from hetpart.graph.ir import Graph, Op

_SUGGESTIONS = 5


def matches(pin: Pin | OpPattern, op: Op) -> bool:
    """Whether ``pin`` speaks of ``op``: its pattern is one of the op's names, or a glob that matches one."""
    return any(name == pin.pattern or fnmatchcase(name, pin.pattern) for name in names_of(pin.kind, op))


def resolve_pins(pins: Iterable[Pin], graph: Graph, machine: Machine) -> dict[int, str]:
    """Device of every pinned op, by the op's id.

    Raises:
        InvalidOptionError: a pin matches nothing, names a device that is not there, or contradicts another one.
    """
    placed: dict[int, Pin] = {}
    for pin in pins:
        known_device(pin.device, machine, pin.text)
        for op in matched(pin, graph, "the pin"):
            earlier = placed.setdefault(op.id, pin)
            if earlier.device != pin.device:
                raise InvalidOptionError(
                    f"the pins {earlier.text!r} and {pin.text!r} contradict each other on the op {op.name!r}",
                    hint="make one of the patterns narrower",
                )
    return {op: placed[op].device for op in sorted(placed)}


def matched(pin: Pin | OpPattern, graph: Graph, what: str) -> Sequence[Op]:
    """The ops that ``pin`` speaks of; ``what`` names the option in words.

    Raises:
        UnmatchedPatternError: there is none.
    """
    found = [op for op in graph.ops if matches(pin, op)]
    if not found:
        hint = hint_of(pin, {name for op in graph.ops for name in names_of(pin.kind, op)}, _modules(pin.kind, graph))
        raise UnmatchedPatternError(f"{what} {pin.text!r} matches no op of {graph.name!r}", hint=hint)
    return found


def names_of(kind: PinKind, op: Op) -> Iterator[str]:
    """What a pattern of ``kind`` may call ``op``."""
    own = [(op.op_type, op.name)] + ([(op.origin.op_type, op.origin.name)] if op.origin else [])
    if kind is not PinKind.NODE:
        yield from (op_type for op_type, _ in own)
    if kind is not PinKind.OP:
        yield from (name for _, name in own)
        if op.source:
            yield op.source.node
    if kind is PinKind.ANY and op.scope:
        yield from _modules_of(op)
        # A module's own ops lie inside it: `encoder.layer.0.*` is all of the layer, its residual additions too.
        yield from (f"{op.scope}.{op_type}" for op_type, _ in own)


def _modules_of(op: Op) -> Iterator[str]:
    """The modules that ``op`` lies in, the outermost first."""
    return accumulate(op.scope.split("."), "{}.{}".format) if op.scope else iter(())


def _modules(kind: PinKind, graph: Graph) -> list[str]:
    """Those that patterns of ``kind`` may name: what lies deepest comes last."""
    found = {name for op in graph.ops for name in _modules_of(op)} if kind is PinKind.ANY else set[str]()
    return sorted(found, key=lambda name: (name.count("."), name))


def hint_of(pin: Pin | OpPattern, names: Iterable[str], modules: Sequence[str] = ()) -> str:
    """What a pattern that matches nothing may mean, of the ``names`` that there are; ``modules`` are told first."""
    known = sorted(names)
    close = get_close_matches(pin.pattern.strip("*"), known, n=_SUGGESTIONS, cutoff=0.4)
    if close:
        return f"did you mean {', '.join(map(repr, close))}?"
    examples = list(dict.fromkeys([*modules, *known]))[:_SUGGESTIONS]
    return f"the graph has, for example, {', '.join(map(repr, examples))}"
