# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Which operators of a loss compute in half precision, and how its gradients are kept from vanishing in it.

Parameters are halves where they are used. What of two types is given operators of neither list is promoted, as PyTorch
does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidOptionError
from hetpart.training.lookups import LookingUp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import GraphModule

LARGEST = float(torch.finfo(torch.float32).max)
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""By the name that the option ``precision`` has for it."""
_HALF = """
linear matmul mm bmm mv addmm baddbmm addbmm addmv einsum prelu scaled_dot_product_attention
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution
gru lstm rnn_tanh rnn_relu gru_cell lstm_cell
"""
_FULL = """
softmax log_softmax _softmax _log_softmax softplus layer_norm native_layer_norm group_norm batch_norm instance_norm
cross_entropy_loss nll_loss nll_loss_nd nll_loss2d binary_cross_entropy binary_cross_entropy_with_logits mse_loss
l1_loss smooth_l1_loss huber_loss kl_div hinge_embedding_loss margin_ranking_loss soft_margin_loss poisson_nll_loss
cosine_embedding_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss cosine_similarity
pairwise_distance exp expm1 log log10 log1p log2 pow rsqrt reciprocal sum prod cumsum cumprod norm
linalg_vector_norm cdist dist pdist acos asin cosh sinh tan erfinv renorm
"""
IN_HALF, IN_FULL = frozenset(_HALF.split()), frozenset(_FULL.split())
"""Operators that compute so whatever they are given, as ``torch.autocast`` has them for CUDA."""


def half_named(precision: str | None) -> torch.dtype | None:
    """The type that ``precision`` names.

    Raises:
        InvalidOptionError: it names none.
    """
    if precision is None or precision in HALVES:
        return HALVES[precision] if precision else None
    raise InvalidOptionError(f"precision cannot be {precision!r}", hint='it is "fp16" or "bf16", or left out')


_EXPECTED = torch.ops.aten._assert_tensor_metadata.default
"""Which types the program had before it was cast otherwise: ``torch.export`` asks beside every cast of its own."""


class Casting(LookingUp):
    """Runs a graph whose operators compute in half or in full precision, as the lists say."""

    def __init__(self, module: GraphModule, tables: Mapping[str, torch.Tensor], half: torch.dtype) -> None:
        super().__init__(module, tables)
        self._half = half

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is _EXPECTED:
            return None
        name = target.name().partition("::")[2].partition(".")[0] if isinstance(target, OpOverload) else ""
        if name in IN_HALF or name in IN_FULL:
            wanted = self._half if name in IN_HALF else torch.float32
            args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: _cast(tensor, wanted), (args, kwargs))
        return super().call_function(target, args, kwargs)


def _cast(tensor: torch.Tensor, wanted: torch.dtype) -> torch.Tensor:
    known = tensor.dtype in (*HALVES.values(), torch.float32)
    return tensor.to(wanted) if known and tensor.dtype != wanted else tensor


@dataclass(frozen=True, slots=True)
class LossScale:
    """What multiplies a loss lest its gradients be zeros in half precision, by the rule of ``torch.amp.GradScaler``."""

    initial: float = 65536.0
    growth: float = 2.0
    """What multiplies it after ``interval`` updates without an overflow."""
    backoff: float = 0.5
    """What multiplies it after an overflow, whose update is left out."""
    interval: int = 2000


class Scaling:
    """The scale of a loss from step to step."""

    def __init__(self, rule: LossScale) -> None:
        self.rule = rule
        self.scale = rule.initial
        self.since = 0
        """Updates since it changed."""

    def after(self, content: Mapping[str, Any]) -> Scaling:
        """The scale that goes on from what ``state_dict`` gave; one that never changes stays as it is."""
        made = Scaling(self.rule)
        made.scale, made.since = self.scale, self.since
        if "scale" in content and (self.rule.growth, self.rule.backoff) != (1.0, 1.0):
            made.scale, made.since = float(content["scale"]), int(content["since"])
        return made

    def of_part(self, parts: int) -> float:
        """What multiplies the loss of one of so many parts of a batch, as ``scale(loss / parts)`` does."""
        return float(torch.tensor(self.scale / parts, dtype=torch.float32))

    def tell(self, *, overflowed: bool) -> None:
        """That a step's gradients were or were not all finite."""
        self.since = 0 if overflowed else self.since + 1
        if overflowed:
            self.scale *= self.rule.backoff
        elif self.since == self.rule.interval:
            grown = self.scale * self.rule.growth
            self.scale, self.since = grown if grown <= LARGEST else self.scale, 0


def scaling_of(given: LossScale | float | None, precision: str | None) -> Scaling | None:
    """What the option ``loss_scale`` asks for: without it, fp16 alone has one."""
    if given is None:
        return Scaling(LossScale()) if precision == "fp16" else None
    return Scaling(given if isinstance(given, LossScale) else LossScale(float(given), 1.0, 1.0))
