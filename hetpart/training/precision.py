# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Which operators of a loss compute in half precision, and how its gradients are kept from vanishing in it.

Parameters are halves where they are used. Operators of neither list compute with them in full precision, as they do
beneath ``torch.autocast``, which leaves parameters as they are; and in it with whatever else is of two types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hetpart.errors import ExecutionError, InvalidModelError, InvalidOptionError
from hetpart.training.fed import counted, scaled
from hetpart.training.limits import LARGEST
from hetpart.training.lookups import LookingUp
from hetpart.training.written import operator_name, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.fx import GraphModule, Node


HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""By the name that the option ``precision`` has for it."""
IN_FLOAT32 = "compute it in float32: cast what it is given by .float(), or compile without precision"
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
fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn
fft_hfft fft_ihfft stft istft
avg_pool3d ctc_loss quantile nanquantile polar complex view_as_complex pdist
cholesky cholesky_inverse cholesky_solve inverse pinverse det logdet slogdet qr svd geqrf orgqr ormqr lu_solve
triangular_solve matrix_exp
linalg_cholesky linalg_cholesky_ex linalg_cond linalg_det linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq
linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_matrix_norm linalg_matrix_rank
linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd
linalg_svdvals linalg_tensorinv linalg_tensorsolve
special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_erfcx special_i0e special_i1 special_i1e
special_log_ndtr special_ndtri special_zeta
"""
_MOVES = """
view _unsafe_view reshape flatten unflatten permute transpose movedim t numpy_T expand expand_as slice select narrow
unsqueeze squeeze unbind split split_with_sizes chunk cat stack as_strided alias detach clone contiguous diagonal
index index_select gather embedding embedding_bag _embedding_bag repeat tile roll flip
"""
IN_HALF, IN_FULL, MOVES = frozenset(_HALF.split()), frozenset(_FULL.split()), frozenset(_MOVES.split())
"""Operators that compute so whatever they are given, as ``torch.autocast`` has them for CUDA, and in full precision as
well what PyTorch has no kernels of halves for on the CPU; and those that only bring parts of it elsewhere, or add rows
of it up: of parameters what they give is halves, too."""
_PLAIN = frozenset({"lerp", "lerp_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"})
"""Elementwise operators that take one type alone."""
_PROMOTES = frozenset({"cat", "stack", "copy_"})
"""Operators that bring what they are given to one type by themselves, beside all of single elements."""


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


_RECORDED_OR_NOT = torch.ops.higher_order.wrap_with_set_grad_enabled
_CAST_OR_NOT = torch.ops.higher_order.wrap_with_autocast
_CASTS = tuple(getattr(torch.ops.aten.to, name) for name in ("dtype", "dtype_layout", "device", "other"))


class Plain(LookingUp):
    """Runs a graph whose operators compute in the types that they are given."""

    def run_node(self, n: Node) -> Any:
        if not _is_passed_on(n):
            return super().run_node(n)
        # The program takes what is cast for what it is cast from from here on, also where gradients go through it.
        with torch.enable_grad():
            return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is _EXPECTED:
            return None
        if target is _RECORDED_OR_NOT:
            return self._region(*args)
        if target is _CAST_OR_NOT:
            return self._cast_region(*args)
        return super().call_function(target, args, kwargs)

    def _region(self, recorded: bool, module: GraphModule, *args: Any) -> Any:
        """What the loss computes beneath ``torch.no_grad``, which is a graph of its own."""
        with torch.set_grad_enabled(recorded):
            return self._inner(module, args).run(*args)

    def _cast_region(self, *args: Any) -> Any:
        """What the loss computes within a ``torch.autocast`` of its own: where that is off, in the trace's types."""
        _, _, enabled, _, module, *given = args
        if enabled:
            return self._inner(module, given).run(*given)
        traced = (node.meta["val"] for node in module.graph.find_nodes(op="placeholder"))
        return Plain(module, {}).run(*map(_as_traced, given, traced))

    def _inner(self, module: GraphModule, given: Sequence[Any]) -> Plain:
        """What runs a region that is ``given`` that."""
        del given
        return Plain(module, {})


class Casting(Plain):
    """Runs a graph whose operators compute in half or in full precision, as the lists say."""

    def __init__(
        self,
        module: GraphModule,
        tables: Mapping[str, torch.Tensor],
        half: torch.dtype,
        parameters: Sequence[torch.Tensor],
    ) -> None:
        super().__init__(module, tables)
        self._half = half
        self._halved = {id(value): value for value in parameters if value.dtype == half}
        """Parameters, and parts of them, that are in full precision beneath ``torch.autocast``."""
        self._written = written(module, MOVES)
        self._is_written = False

    def run_node(self, n: Node) -> Any:
        self._is_written = n in self._written
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is _EXPECTED or not isinstance(target, OpOverload):
            return super().call_function(target, args, kwargs)
        name = operator_name(target)
        given = [value for value in pytree.tree_leaves((args, kwargs)) if _is_cast(value)]
        parts = name in MOVES and bool(given) and all(id(value) in self._halved for value in given)
        # Beneath autocast what is written to is a part in full precision, which has to be one for all who see it.
        moves = parts and not self._is_written
        wanted = self._half if name in IN_HALF else torch.float32 if name in IN_FULL else None
        if wanted is not None:
            args, kwargs = _all_cast(args, kwargs, wanted)
        elif not moves:
            args, kwargs = self._in_full(target, name, args, kwargs)
        made = self._called(target, args, kwargs)
        if moves:
            self._halved.update({id(value): value for value in pytree.tree_leaves(made) if _is_cast(value)})
        return made

    def _inner(self, module: GraphModule, given: Sequence[Any]) -> Plain:
        return Casting(module, {}, self._half, [value for value in given if id(value) in self._halved])

    def _called(self, target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return super().call_function(target, args, kwargs)
        except RuntimeError as error:
            if all(value.dtype != self._half for value in pytree.tree_leaves((args, kwargs)) if _is_cast(value)):
                raise
            raise InvalidModelError(
                f"the loss calls {target.name()} in half precision: {str(error).strip().splitlines()[0]}",
                hint=IN_FLOAT32,
            ) from error

    def _in_full(self, target: OpOverload, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator of neither list is given: parameters in full precision, and types that are one."""
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda value: _cast(value, torch.float32) if id(value) in self._halved else value,
            (args, kwargs),
        )
        types = {value.dtype for value in pytree.tree_leaves((args, kwargs)) if _is_cast(value)}
        if len(types) < 2 or name in _PROMOTES or (torch.Tag.pointwise in target.tags and name not in _PLAIN):
            return args, kwargs
        # What is written to keeps its type.
        return _all_cast(args, kwargs, args[0].dtype if target._schema.is_mutable else torch.float32)


def _is_passed_on(node: Node) -> bool:
    """Whether it is a cast to the type that the program had already, which gave the same tensor."""
    if node.target not in _CASTS:
        return False
    made, given = node.meta.get("val"), getattr(node.args[0], "meta", {}).get("val")
    return isinstance(made, torch.Tensor) and isinstance(given, torch.Tensor) and made.dtype == given.dtype


def _is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (*HALVES.values(), torch.float32)


def _cast(value: torch.Tensor, wanted: torch.dtype) -> torch.Tensor:
    return value.to(wanted) if _is_cast(value) and value.dtype != wanted else value


def _as_traced(value: Any, traced: Any) -> Any:
    return _cast(value, traced.dtype) if _is_cast(value) and _is_cast(traced) else value


def _all_cast(args: tuple[Any, ...], kwargs: dict[str, Any], wanted: torch.dtype) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda value: _cast(value, wanted), (args, kwargs))


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
        """The scale that goes on from what ``state_dict`` gave; one that never changes stays as it is.

        Raises:
            InvalidFeedError: it gave none.
        """
        made = Scaling(self.rule)
        made.scale, made.since = self.scale, self.since
        if "scale" in content and (self.rule.growth, self.rule.backoff) != (1.0, 1.0):
            made.scale, made.since = scaled(content, "scale", self.scale), counted(content, "since")
        return made

    def of_part(self, parts: int) -> float:
        """What multiplies the loss of one of so many parts of a batch, as ``scale(loss / parts)`` does.

        Raises:
            ExecutionError: nothing is left of it, as after an overflow in each of many updates.
        """
        found = float(torch.tensor(self.scale / parts, dtype=torch.float32))
        if not found:
            raise ExecutionError(
                f"the scale of the loss came down to {self.scale:g}, which float32 has as 0: every update overflowed",
                hint="the loss or a gradient is not finite, whatever its scale: look at the batch and the rate",
            )
        return found

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
