# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Dropouts of a step: what they keep is told by a seed, whichever device they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from hetpart.training.drawn import arguments_of, put, put_in_place_of
from hetpart.training.random_operators import keep_operator

if TYPE_CHECKING:
    from torch._ops import OpOverload
    from torch.fx import Node

_aten = torch.ops.aten


def _keep(dropout: Node, seed: Node, salt: int) -> None:
    told = arguments_of(dropout)
    x, p = told["input"], told["p"]
    known, mask_known = dropout.meta["val"]
    mask = put(dropout, keep_operator(), seed, list(known.shape), p, salt)
    kept = put(dropout, _aten.to.dtype, mask, known.dtype)
    scaled = put(dropout, _aten.mul.Tensor, kept, 1.0 / (1.0 - p) if p < 1 else 0.0)
    made = put(dropout, _aten.mul.Tensor, x, scaled)
    mask.meta["val"], made.meta["val"] = mask_known, known
    for result in list(dropout.users):
        result.replace_all_uses_with(mask if result.args[1] else made)


def _toss(node: Node, seed: Node, salt: int) -> None:
    """Let ``node`` have ones where a dropout with the rest of its probability keeps."""
    known = node.meta["val"]
    mask = put(node, keep_operator(), seed, list(known.shape), 1.0 - arguments_of(node)["p"], salt)
    put_in_place_of(node, put(node, _aten.to.dtype, mask, known.dtype))


DROPOUTS: Mapping[OpOverload, Callable[[Node, Node, int], None]] = {
    _aten.native_dropout.default: _keep,
    # What dropouts in place, of channels and for SELU are made of: ones with a probability that is a number.
    _aten.bernoulli_.float: _toss,
    _aten.bernoulli.p: _toss,
}
"""What puts a mask by the seed, an argument, and a salt in the place of a call."""
