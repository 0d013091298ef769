"""What kind of value every option of Python's may be given: the texts in it are read where the option is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from os import PathLike
from reprlib import repr as shortened
from typing import Any, cast

from hetpart.errors import InvalidOptionError

Kind = Callable[[Any], bool]


def require_kinds(options: Mapping[str, object]) -> None:
    """Every one of ``options`` that is known here is of its kind.

    Raises:
        InvalidOptionError: one is not.
    """
    for name in options.keys() & _KINDS.keys():
        holds, hint = _KINDS[name]
        if not holds(options[name]):
            raise InvalidOptionError(f"{name} cannot be {shortened(options[name])}", hint=hint)


def _is_none(given: object) -> bool:
    return given is None


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def _is_path(given: object) -> bool:
    return isinstance(given, str | PathLike)


def _is_device(given: object) -> bool:
    return _is_text(given) or type(given).__name__ == "device"  # PyTorch's


def _is_switch(given: object) -> bool:
    return isinstance(given, bool)


def _is_whole(given: object) -> bool:
    return not isinstance(given, bool) and isinstance(given, Integral)


def _is_count(given: object) -> bool:
    return _is_whole(given) and cast("int", given) >= 0


def _is_record(given: object) -> bool:
    return hasattr(given, "watched")


def _is_number(given: object) -> bool:
    return not isinstance(given, bool) and isinstance(given, Real)


def _either(*kinds: Kind) -> Kind:
    return lambda given: any(kind(given) for kind in kinds)


def _several(kind: Kind) -> Kind:
    def holds(given: object) -> bool:
        is_some = isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping)
        return is_some and all(map(kind, cast("Collection[Any]", given)))

    return holds


def _by_name(kind: Kind) -> Kind:
    def holds(given: object) -> bool:
        if not isinstance(given, Mapping):
            return False
        known = cast("Mapping[Any, Any]", given)
        return all(map(_is_text, known)) and all(map(kind, known.values()))

    return holds


_SIZE = _either(_is_text, _is_number)
_TEXTS = _either(_is_none, _is_text, _several(_is_text))
_NAMES = _either(_TEXTS, _by_name(_is_text))
_COUNTS = _either(_TEXTS, _by_name(_either(_is_text, _is_whole)))
_KINDS: Mapping[str, tuple[Kind, str]] = {
    "access": (
        _either(_is_none, _is_path, _by_name(_is_number)), "it is probabilities by name, or the path of a JSON file"
    ),
    "budget": (
        _either(_is_none, _SIZE, _several(_SIZE), _by_name(_SIZE)),
        'it is "16GB", "80%", a number of bytes, several of these, or one by the name of each device',
    ),
    "colocate": (_TEXTS, 'it is a pattern such as "encoder.layer.0.*", or several'),
    "cuda_graph": (_is_switch, "it is True or False"),
    "emulate": (_is_switch, "it is True or False"),
    "emulate_link": (_either(_is_none, _SIZE), 'it is "12GB/s", or a number of bytes per second'),
    "hardware": (_either(_is_none, _is_path), "it is the name of a profile or the path of a TOML file"),
    "headroom": (_either(_is_none, _SIZE), 'it is "1GB", "10%" or a number of bytes'),
    "host_budget": (_either(_is_none, _SIZE), 'it is "16GB" or a number of bytes'),
    "io": (_NAMES, 'it is "logits=cuda:0", several of these, or devices by name'),
    "max_partitions": (_either(_is_none, _is_whole), "it is a number from 1"),
    "min_gain": (_either(_is_none, _is_text), 'it is "5%" or "1ms"'),
    "optimize": (_is_switch, "it is True or False"),
    "overlap": (_either(_is_none, _is_switch), "it is True or False"),
    "pin": (
        _either(_TEXTS, _by_name(_is_device)),
        'it is "encoder.*=cpu", several of these, or devices by pattern; hetpart.pin(module, device) pins a module',
    ),
    "placement": (
        _either(_is_path, _by_name(_is_text)), "it is the name of a rule, the path of a file, or devices by op"
    ),
    "progress": (_either(_is_none, callable), "it is a function, which is told what is under way"),
    "provider": (_NAMES, 'it is "cuda:0=TensorrtExecutionProvider", several of these, or names by device'),
    "record": (_either(_is_switch, _is_record), "it is True or False, or a RunRecord"),
    "shape": (_COUNTS, 'it is "batch=8", several of these, or numbers by name'),
    "state": (_NAMES, 'it is "past=present", several of these, or outputs by input'),
    "stream": (_either(_is_none, _is_switch), "it is True, False or None"),
    "threads": (_either(_is_none, _is_count), "it is a number from 0, which leaves it to the machine"),
    "time_limit": (_is_number, "it is a number of seconds from 0"),
    "trip_count": (_COUNTS, 'it is "decoder/loop*=32", several of these, or numbers by pattern'),
}  # fmt: skip
