# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false, reportArgumentType=false
"""Caches of `transformers`, which its decoders take and return unless they are told not to: tensors to an export.

A layer of a sliding window keeps what the window still sees, so it also says how many tokens it has seen: a number,
which is an input of the plan as the tensors are. Layers of linear attention also say which of their states are there.
"""

from __future__ import annotations

import ast
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
_REFORMER = "transformers.models.reformer.modeling_reformer"
_BUCKETS = ("buckets_cache", "states_cache", "_seen_tokens")
_HALVES = ("self_attention_cache", "cross_attention_cache")


@dataclass(frozen=True, slots=True)
class _Layer:
    """What a layer of a cache is made of."""

    held: Sequence[str]
    """What differs from call to call: tensors, numbers of tokens and what says which tensors are there."""
    fixed: Sequence[str] = ()
    """What is of the model."""

    def __add__(self, other: _Layer) -> _Layer:
        return _Layer((*self.held, *other.held), (*self.fixed, *other.fixed))


_PLAIN, _WHOLE = "DynamicLayer", "layer"
_GROWING = _Layer(("keys", "values"))
_SLIDING = _Layer(("keys", "values", "cumulative_length"), ("sliding_window", "record_past"))
_STATIC = _Layer(("keys", "values", "cumulative_length"), ("max_cache_len",))
_STATIC_SLIDING = _STATIC + _Layer(("cumulative_length_int",))
_LINEAR = _Layer(
    ("conv_states", "recurrent_states", "has_previous_state", "is_conv_states_initialized",
     "is_recurrent_states_initialized"),
    ("number_of_states", "conv_kernel_size", "record_past"),
)  # fmt: skip
_LAYERS = {
    _PLAIN: _GROWING,
    "DynamicSlidingWindowLayer": _SLIDING,
    "StaticLayer": _STATIC,
    "StaticSlidingWindowLayer": _STATIC_SLIDING,
    "LinearAttentionLayer": _LINEAR,
    "LinearAttentionAndFullAttentionLayer": _GROWING + _LINEAR,
    "LinearAttentionAndSlidingWindowAttentionLayer": _SLIDING + _LINEAR,
    "LinearAttentionAndStaticFullAttentionLayer": _STATIC + _LINEAR,
    "LinearAttentionAndStaticSlidingWindowAttentionLayer": _STATIC_SLIDING + _LINEAR,
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
    content: Sequence[str]
    """Attributes that hold what a call changes."""


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
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

    found: dict[type, _Kind] = {
        kind: _Kind(_held, _told, partial(_cache, kind), ("layers",)) for kind in (DynamicCache, StaticCache)
    }
    found[EncoderDecoderCache] = _Kind(_halves, _nothing, _joined, (*_HALVES, "is_updated"))
    reformer: Any = getattr(sys.modules.get(_REFORMER), "ReformerDynamicCache", None)
    if reformer is not None:
        found[reformer] = _Kind(_buckets, _nothing, partial(_bucketed, reformer), _BUCKETS)
    return found


def has_caches(spec: pytree.TreeSpec | None) -> bool:
    """Whether a call with such arguments is given caches."""
    return spec is not None and (spec.type in _kinds() or any(map(has_caches, spec.children())))


def grow(given: Any, made: Any) -> None:
    """Let the caches in ``given``, a call's arguments, hold what those in ``made``, its results, hold.

    A decoder returns the caches that it is given.
    """
    kinds = _kinds()
    before, after = _caches(given, kinds), _caches(made, kinds)
    if [type(cache) for cache in before] == [type(cache) for cache in after]:
        for cache, new in zip(before, after, strict=True):
            for name in kinds[type(cache)].content:
                setattr(cache, name, getattr(new, name))


def _caches(tree: Any, kinds: Mapping[type, _Kind]) -> list[Any]:
    leaves = pytree.tree_leaves(tree, is_leaf=lambda leaf: type(leaf) in kinds)
    return [leaf for leaf in leaves if type(leaf) in kinds]


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
        return pytree.tree_map(_nothing, value) if said is None else said
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
    return None if all(kind == _PLAIN for kind, _ in kinds) else repr(kinds)


def _kind(layer: Any) -> tuple[str, dict[str, Any]]:
    name = type(layer).__name__
    known = _LAYERS.get(name)
    return (_WHOLE, {}) if known is None else (name, {fixed: getattr(layer, fixed) for fixed in known.fixed})


def _cache(kind: Any, found: list[Any], told: str | None) -> Any:
    from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

    cache: Any = kind.__new__(kind)
    Cache.__init__(cache, **({"layer_class_to_replicate": DynamicLayer} if kind is DynamicCache else {"layers": []}))
    held = iter(found)
    kinds: list[Any] = ast.literal_eval(told) if told else [(_PLAIN, {})] * (len(found) // len(_GROWING.held))
    cache.layers = [next(held) if name == _WHOLE else _layer(name, fixed, held) for name, fixed in kinds]
    return cache


def _layer(kind: str, fixed: Mapping[str, Any], held: Iterable[Any]) -> Any:
    from transformers import cache_utils

    made: Any = getattr(cache_utils, kind).__new__(getattr(cache_utils, kind))
    content = dict(zip(_LAYERS[kind].held, held, strict=False))
    for name, value in {"keys": None, "values": None, **content, **fixed}.items():
        setattr(made, name, value)
    made.is_initialized = made.keys is not None or not content
    first = next((leaf for leaf in pytree.tree_leaves(content) if isinstance(leaf, torch.Tensor)), None)
    made.dtype, made.device = getattr(first, "dtype", None), getattr(first, "device", None)
    return made


def _halves(cache: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(cache, name)) for name in _HALVES]


def _nothing(_: Any) -> None:
    return None


def _joined(found: list[Any], _: str | None) -> Any:
    from transformers.cache_utils import EncoderDecoderCache

    cache: Any = EncoderDecoderCache.__new__(EncoderDecoderCache)
    for name, half in zip(_HALVES, found, strict=True):
        setattr(cache, name, half)
    cache.is_updated = {number: layer.is_initialized for number, layer in enumerate(found[1].layers)}
    return cache


def _buckets(cache: Any) -> list[tuple[str, Any]]:
    return [(name.strip("_"), getattr(cache, name)) for name in _BUCKETS]


def _bucketed(kind: Any, found: list[Any], _: str | None) -> Any:
    cache: Any = kind.__new__(kind)
    for name, content in zip(_BUCKETS, found, strict=True):
        setattr(cache, name, content)
    return cache
