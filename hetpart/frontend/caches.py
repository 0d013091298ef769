# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false, reportArgumentType=false
"""Caches of `transformers`, which its decoders take and return unless they are told not to: tensors to an export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError

HINT = (
    "leave the cache out: kwargs={…, 'use_cache': False}; or wrap the model in a module whose forward takes and returns"
    " the keys and values as tensors"
)
_TENSORS = ("keys", "values")
_HALVES = ("self_attention_cache", "cross_attention_cache")
_Parts = Callable[[Any], list[tuple[str, Any]]]


def know_caches() -> None:
    """Let exports look into caches that grow, where `transformers` is there.

    Its own rule makes tensors when it puts a cache together again, and a program that is traced anew, as in every
    decomposition, then has constants that it does not know of.
    """
    if "transformers" not in sys.modules:
        return
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    for kind, parts, whole in ((DynamicCache, _tensors, _cache), (EncoderDecoderCache, _halves, _joined)):
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                partial(_flat, parts),
                partial(_whole, whole),
                serialized_type_name=f"{kind.__module__}.{kind.__name__}",
                flatten_with_keys_fn=partial(_named, parts),
            )


def _flat(parts: _Parts, cache: Any) -> tuple[list[Any], None]:
    return [part for _, part in parts(cache)], None


def _named(parts: _Parts, cache: Any) -> tuple[list[tuple[Any, Any]], None]:
    return [(pytree.MappingKey(name), part) for name, part in parts(cache)], None


def _whole(whole: Callable[[list[Any]], Any], found: Iterable[Any], _: None) -> Any:
    return whole(list(found))


def _tensors(cache: Any) -> list[tuple[str, Any]]:
    others = sorted({type(layer).__name__ for layer in cache.layers} - {"DynamicLayer"})
    if others:
        raise InvalidModelError(f"caches of {', '.join(others)} are not known", hint=HINT)
    numbered = enumerate(cache.layers)
    return [(f"{name}_{number}", getattr(layer, name)) for number, layer in numbered for name in _TENSORS]


def _cache(found: list[Any]) -> Any:
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache()
    for keys, values in zip(found[::2], found[1::2], strict=True):
        layer: Any = DynamicLayer()
        layer.keys, layer.values, layer.is_initialized = keys, values, keys is not None
        layer.dtype, layer.device = getattr(keys, "dtype", None), getattr(keys, "device", None)
        cache.layers.append(layer)
    return cache


def _halves(cache: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(cache, name)) for name in _HALVES]


def _joined(found: list[Any]) -> Any:
    from transformers.cache_utils import EncoderDecoderCache

    cache: Any = EncoderDecoderCache.__new__(EncoderDecoderCache)
    for name, half in zip(_HALVES, found, strict=True):
        setattr(cache, name, half)
    cache.is_updated = {number: layer.is_initialized for number, layer in enumerate(found[1].layers)}
    return cache
