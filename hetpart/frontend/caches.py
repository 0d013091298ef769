# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false, reportArgumentType=false
"""Caches of `transformers`, which its decoders take and return unless they are told not to: tensors to an export.

A layer of a sliding window keeps what the window still sees, so it also says how many tokens it has seen: a number,
which is an input of the plan as the tensors are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError

HINT = (
    "leave the cache out: kwargs={…, 'use_cache': False}; or wrap the model in a module whose forward takes and returns"
    " the keys and values as tensors"
)
_HALVES = ("self_attention_cache", "cross_attention_cache")


@dataclass(frozen=True, slots=True)
class _Layer:
    """What a layer of a cache is made of."""

    held: Sequence[str]
    """What differs from call to call: tensors, and numbers of tokens."""
    fixed: Sequence[str] = ()
    """What is of the model."""


_PLAIN, _WHOLE = "DynamicLayer", "layer"
_LAYERS = {
    _PLAIN: _Layer(("keys", "values")),
    "DynamicSlidingWindowLayer": _Layer(("keys", "values", "cumulative_length"), ("sliding_window", "record_past")),
    "DummyLayer": _Layer(()),
}
"""By class."""
_TakenApart = Callable[[Any], list[tuple[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How caches of a kind are taken apart and put together."""

    parts: _TakenApart
    told: Callable[[Any], str | None]
    """What is the same in all calls; ``None`` of a cache whose layers are all plain."""
    whole: Callable[[list[Any], str | None], Any]


def know_caches() -> None:
    """Let exports look into caches that grow, where `transformers` is there.

    Its own rule makes tensors when it puts a cache together again, and a program that is traced anew, as in every
    decomposition, then has constants that it does not know of.
    """
    for kind, rule in _kinds().items():
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                partial(_flat, rule),
                partial(_whole, rule),
                serialized_type_name=f"{kind.__module__}.{kind.__name__}",
                flatten_with_keys_fn=partial(_named, rule),
            )


def _kinds() -> Mapping[type, _Kind]:
    if "transformers" not in sys.modules:
        return {}
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    return {
        DynamicCache: _Kind(_held, _told, _cache),
        EncoderDecoderCache: _Kind(_halves, _nothing, _joined),
    }


def with_open_numbers(arguments: Mapping[str, Any], given: Any) -> Any:
    """``given``, the dynamic shapes of ``arguments``, with numbers of tokens in caches left open.

    Raises:
        InvalidModelError: a cache has layers that are not known.
    """
    for cache in arguments.values():
        if hasattr(cache, "layers") and type(cache) in _kinds():
            _require_known(cache)
    caches = {name for name, value in arguments.items() if type(value) in _kinds() and _numbers(value)}
    if not caches:
        return given
    by_name = isinstance(given, Mapping)
    said = cast("Mapping[str, Any]", given) if by_name else dict(zip(arguments, given or (), strict=False))
    return {
        name: _opened(value, said.get(name)) if name in caches else said.get(name) for name, value in arguments.items()
    }


def _numbers(cache: Any) -> list[int]:
    return [leaf for leaf in pytree.tree_leaves(cache) if type(leaf) is int]


def _opened(value: Any, said: Any) -> Any:
    if type(value) is int:
        return torch.export.Dim.AUTO
    kind: type = type(value)
    rule = _kinds().get(kind)
    if rule is None:
        return said
    parts = [part for _, part in rule.parts(value)]
    return [_opened(*pair) for pair in zip(parts, said or [None] * len(parts), strict=True)]


def _flat(rule: _Kind, cache: Any) -> tuple[list[Any], str | None]:
    return [part for _, part in rule.parts(cache)], rule.told(cache)


def _named(rule: _Kind, cache: Any) -> tuple[list[tuple[Any, Any]], str | None]:
    return [(pytree.MappingKey(name), part) for name, part in rule.parts(cache)], rule.told(cache)


def _whole(rule: _Kind, found: Iterable[Any], told: str | None) -> Any:
    return rule.whole(list(found), told)


def _held(cache: Any) -> list[tuple[str, Any]]:
    if torch.compiler.is_exporting():
        _require_known(cache)
    return [(f"{name}_{number}", part) for number, layer in enumerate(cache.layers) for name, part in _parts(layer)]


def _require_known(cache: Any) -> None:
    others = sorted({type(layer).__name__ for layer in cache.layers} - _LAYERS.keys())
    if others:
        raise InvalidModelError(f"caches of {', '.join(others)} are not known", hint=HINT)


def _parts(layer: Any) -> list[tuple[str, Any]]:
    """One that is not known is a leaf: whoever else looks into the cache need not know it either."""
    known = _LAYERS.get(type(layer).__name__)
    return [(_WHOLE, layer)] if known is None else [(name, getattr(layer, name)) for name in known.held]


def _told(cache: Any) -> str | None:
    kinds = [_kind(layer) for layer in cache.layers]
    return None if all(kind == _PLAIN for kind, _ in kinds) else json.dumps(kinds)


def _kind(layer: Any) -> tuple[str, dict[str, Any]]:
    name = type(layer).__name__
    known = _LAYERS.get(name)
    return (_WHOLE, {}) if known is None else (name, {fixed: getattr(layer, fixed) for fixed in known.fixed})


def _cache(found: list[Any], told: str | None) -> Any:
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache()
    held = iter(found)
    kinds: list[Any] = json.loads(told) if told else [(_PLAIN, {})] * (len(found) // len(_LAYERS[_PLAIN].held))
    cache.layers.extend(next(held) if kind == _WHOLE else _layer(kind, fixed, held) for kind, fixed in kinds)
    return cache


def _layer(kind: str, fixed: Mapping[str, Any], held: Iterable[Any]) -> Any:
    from transformers import cache_utils

    made: Any = getattr(cache_utils, kind).__new__(getattr(cache_utils, kind))
    content = dict(zip(_LAYERS[kind].held, held, strict=False))
    for name, value in {"keys": None, "values": None, **content, **fixed}.items():
        setattr(made, name, value)
    made.is_initialized = made.keys is not None or not content
    made.dtype, made.device = getattr(made.keys, "dtype", None), getattr(made.keys, "device", None)
    return made


def _halves(cache: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(cache, name)) for name in _HALVES]


def _nothing(cache: Any) -> None:
    del cache


def _joined(found: list[Any], _: str | None) -> Any:
    from transformers.cache_utils import EncoderDecoderCache

    cache: Any = EncoderDecoderCache.__new__(EncoderDecoderCache)
    for name, half in zip(_HALVES, found, strict=True):
        setattr(cache, name, half)
    cache.is_updated = {number: layer.is_initialized for number, layer in enumerate(found[1].layers)}
    return cache
