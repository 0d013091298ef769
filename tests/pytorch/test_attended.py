"""Attention by a mask against eager PyTorch's, of every kind of mask, on both roads and with open sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidFeedError
from tests.pytorch.models import Called, Piece, together

EMULATED = "emulated"


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


HEADS, ROWS, KEYS = drawn(2, 4, 5, 8), drawn(1, 5, 6), drawn(2, 2, 7, 8)
SEEN = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
SEEN[1, :, 2] = False  # nothing
FINITE = torch.zeros(5, 5).masked_fill(~SEEN[1, 0], torch.finfo(torch.float32).min)
PADDED = torch.zeros(2, 1, 1, 7).masked_fill(torch.arange(7) > 4, -math.inf)

CASES: dict[str, dict[str, Piece]] = {
    "in float32": {
        "truth values": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (HEADS, SEEN)),
        "a mask that is known": (lambda x: scaled_dot_product_attention(x, x, x, SEEN), (HEADS,)),
        "numbers": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (HEADS, drawn(5, 5))),
        "numbers that are finite": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (HEADS, FINITE)),
        "keys that are padded": (
            lambda x, k, m: scaled_dot_product_attention(x[:, :2], k, k, m),
            (HEADS, KEYS, PADDED),
        ),
        "a scale below 0": (lambda x, m: scaled_dot_product_attention(x, x, x, m, scale=-0.2), (HEADS, SEEN)),
        "a scale below 0 and no mask": (
            lambda x: (
                scaled_dot_product_attention(x, x, x, scale=-0.5),
                scaled_dot_product_attention(x, x, x, scale=0.0),
            ),
            (HEADS,),
        ),
        "heads that share keys": (
            lambda x, k, m: scaled_dot_product_attention(x, k, k, m, enable_gqa=True),
            (HEADS, KEYS, PADDED),
        ),
        "values of another width": (lambda x, m: scaled_dot_product_attention(x, x, x[..., :3], m), (HEADS, SEEN)),
        "three axes": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (ROWS, SEEN[1])),
        "two axes": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (ROWS[0], SEEN[1, 0])),
        "a batch of masks": (lambda x, m: scaled_dot_product_attention(x[:1], x, x[:1], m), (HEADS, SEEN)),
        "what is no number": (
            lambda x, m: scaled_dot_product_attention(x.masked_fill(x > 2.2, math.nan), x, x, m),
            (HEADS, SEEN),
        ),
        "no keys": (
            lambda x, k: (
                scaled_dot_product_attention(x, k, k),
                scaled_dot_product_attention(x, k, k, is_causal=True),
                scaled_dot_product_attention(x, k[:, :2], k[:, :2, :, :3], enable_gqa=True, scale=-0.5),
            ),
            (HEADS, HEADS[:, :, :0]),
        ),
        "no keys, and a mask": (
            lambda x, k, m: scaled_dot_product_attention(x, k, k, m),
            (HEADS, HEADS[:, :, :0], SEEN[..., :0]),
        ),
        "calls that have a mask and calls that have none": (
            lambda x, m: (
                scaled_dot_product_attention(x, x, x, m),
                scaled_dot_product_attention(x, x, x),
                scaled_dot_product_attention(x, x, x, is_causal=True),
            ),
            (HEADS, SEEN),
        ),
    },
    "in float64": {
        "float64": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (HEADS.double(), FINITE.double())),
    },
    "in half precision": {
        "half precision": (lambda x, m: scaled_dot_product_attention(x, x, x, m), (HEADS.half(), SEEN)),
    },
}


@pytest.mark.parametrize("group", CASES)
def test_it_is_eager_pytorchs(group: str) -> None:
    code, given = together(CASES[group])
    wanted = code(*given)
    planned = hetpart.partition(Called(code), args=given, placement="random:3", hardware=EMULATED)
    _assert_close(planned.to_module(emulate=True)(*given), wanted)
    assert not [op for op in planned.plan.decisions if op.op_type.startswith("aten.")], "left to PyTorch"
    torch.compiler.reset()
    compiled = torch.compile(code, backend=backend, options={"emulate": True, "placement": "random:1"})
    with torch.no_grad():
        _assert_close(compiled(*given), wanted)


@pytest.mark.parametrize(("batch", "length"), [(2, 5), (1, 1), (3, 2), (2, 9)])
def test_sizes_may_be_open(batch: int, length: int) -> None:
    def attended(x: Tensor, m: Tensor) -> Tensor:
        return scaled_dot_product_attention(x, x, x, m)

    b, n = torch.export.Dim("b"), torch.export.Dim("n")
    planned = hetpart.partition(
        Called(attended),
        args=(HEADS, SEEN),
        dynamic_shapes={"given": ({0: b, 2: n}, {0: b, 2: n, 3: n})},
        shape={"b": batch, "n": length},
        placement="random:2",
        hardware=EMULATED,
    )
    x, m = drawn(batch, 4, length, 8), drawn(batch, 1, length, length) < 0
    torch.testing.assert_close(planned.to_module(emulate=True)(x, m), attended(x, m))


KINDS: dict[str, Callable[[Tensor], dict[str, Any]]] = {
    "no mask": lambda _: {},
    "truth values": lambda m: {"attn_mask": m < 0.3},
    "numbers": lambda m: {"attn_mask": m.masked_fill(m > 0.8, -math.inf)},
    "no keys behind": lambda _: {"is_causal": True},
}


@cache
def _exported(*kinds: str) -> tuple[Callable[..., dict[str, Tensor]], hetpart.ExportedModel]:
    """Attention to an open number of keys by masks of ``kinds``."""

    def attended(x: Tensor, k: Tensor, m: Tensor) -> dict[str, Tensor]:
        return {kind: scaled_dot_product_attention(x, k, k[..., :3], **KINDS[kind](m)) for kind in kinds}

    n = torch.export.Dim("n")
    given, shapes = (HEADS, KEYS.repeat(1, 2, 1, 1), drawn(5, 7)), {"given": ({}, {2: n}, {1: n})}
    return attended, hetpart.export(Called(attended), args=given, dynamic_shapes=shapes)


def _given(keys: int) -> tuple[Tensor, ...]:
    return HEADS, drawn(2, 4, keys, 8), drawn(5, keys)


def test_an_open_number_of_keys_may_be_none() -> None:
    attended, exported = _exported(*KINDS)
    left = hetpart.partition(exported, shape={"n": "?"}, placement="random:2", hardware=EMULATED)
    run = left.to_module(emulate=True)
    for keys in (0, 2, 6):
        given = _given(keys)
        torch.testing.assert_close(run(*given), attended(*given))
        planned = hetpart.partition(exported, shape={"n": keys}, placement="random:2", hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(*given), attended(*given))


def test_one_key_is_a_size_of_its_own() -> None:
    attended, exported = _exported(*KINDS)
    planned = hetpart.partition(exported, shape={"n": 1}, placement="random:2", hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(*_given(1)), attended(*_given(1)))


@pytest.mark.parametrize("kind", KINDS)
def test_where_any_number_of_keys_is_open_one_is_refused(kind: str) -> None:
    _, exported = _exported(kind)
    left = hetpart.partition(exported, shape={"n": "?"}, placement="random:2", hardware=EMULATED)
    with pytest.raises(InvalidFeedError, match="n != 1"):
        left.to_module(emulate=True)(*_given(1))


def _assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """In half precision as near as what rounds scores too."""
    rounded: dict[str, Any] = {"rtol": 0.01, "atol": 0.002} if "half precision" in wanted else {}
    torch.testing.assert_close(found, wanted, equal_nan=True, **rounded)
