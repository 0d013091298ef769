# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Random numbers of a step, drawn by its seed: noise, indices, an order, slopes of an RReLU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hetpart.training.random_operators import draw_by_operator, draw_operator

if TYPE_CHECKING:
    from torch._ops import OpOverload
    from torch.fx import Node

_aten = torch.ops.aten
Law = tuple[str, tuple[str | float, ...]]
"""One of ``random_operators.LAWS``, and the numbers that it is given: of arguments, by name, or these."""
_LAWS: Mapping[OpOverload, Law] = {
    **dict.fromkeys((_aten.rand.default, _aten.rand.out, _aten.rand_like.default), ("uniform", (0, 1))),
    **dict.fromkeys((_aten.randn.default, _aten.randn.out, _aten.randn_like.default), ("normal", (0, 1))),
    _aten.uniform_.default: ("uniform", ("from", "to")),
    **dict.fromkeys(
        (_aten.normal_.default, _aten.normal.float_float, _aten.normal.float_float_out), ("normal", ("mean", "std"))
    ),
    _aten.exponential_.default: ("exponential", ("lambd",)),
    _aten.log_normal_.default: ("log_normal", ("mean", "std")),
    _aten.cauchy_.default: ("cauchy", ("median", "sigma")),
    _aten.geometric_.default: ("geometric", ("p",)),
    _aten.random_.default: ("any", ()),
    _aten.random_.to: ("integers", (0, "to")),
    **dict.fromkeys((_aten.randint.default, _aten.randint.out, _aten.randint_like.default), ("integers", (0, "high"))),
    **dict.fromkeys(
        (_aten.randint.low, _aten.randint.low_out, _aten.randint_like.low_dtype), ("integers", ("low", "high"))
    ),
    **dict.fromkeys((_aten.randperm.default, _aten.randperm.out), ("order", ())),
}
_LAWS_BY: Mapping[OpOverload, tuple[str, str]] = {
    **dict.fromkeys((_aten.bernoulli.default, _aten.bernoulli.out), ("bernoulli", "self")),
    _aten.bernoulli_.Tensor: ("bernoulli", "p"),
    _aten.poisson.default: ("poisson", "self"),
    _aten._standard_gamma.default: ("gamma", "self"),
    _aten._sample_dirichlet.default: ("dirichlet", "self"),
}
"""One of ``random_operators.LAWS_BY``, and the argument that has its parameters."""
_NORMALS = (
    _aten.normal.Tensor_float, _aten.normal.float_Tensor, _aten.normal.Tensor_Tensor,
    _aten.normal.Tensor_float_out, _aten.normal.float_Tensor_out, _aten.normal.Tensor_Tensor_out,
)  # fmt: skip
_RELUS = (_aten.rrelu_with_noise.default, _aten.rrelu_with_noise_.default)


def put(node: Node, target: Callable[..., Any], *args: Any) -> Node:
    """A call in front of ``node``, for it."""
    with node.graph.inserting_before(node):
        made = node.graph.call_function(target, args)
    made.meta |= {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
    return made


def put_in_place_of(node: Node, made: Node) -> None:
    """Let ``made`` be what ``node`` makes, which may be what it writes to."""
    target: Any = node.target
    into = target._schema.returns[0].alias_info
    if into is not None and into.is_write:
        known = target._schema.arguments
        name = next(one.name for one in known if one.alias_info and one.alias_info.before_set == into.before_set)
        made = put(node, _aten.copy_.default, arguments_of(node)[name], made)
    made.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)


def arguments_of(node: Node) -> dict[str, Any]:
    """By name, those that nobody gave too."""
    target: Any = node.target
    known = target._schema.arguments
    given = dict(zip((one.name for one in known), node.args, strict=False))
    return {one.name: one.default_value for one in known if one.has_default_value()} | given | node.kwargs


def _drawn(node: Node, seed: Node, salt: int, law: str, *given: float) -> Node:
    known = node.meta["val"]
    return put(node, draw_operator(), seed, list(known.shape), known.dtype, law, [float(one) for one in given], salt)


def _draw(node: Node, seed: Node, salt: int, *, law: Law) -> None:
    told, (name, numbers) = arguments_of(node), law
    given = [told[number] if isinstance(number, str) else number for number in numbers]
    put_in_place_of(node, _drawn(node, seed, salt, name, *given))


def _draw_by(node: Node, seed: Node, salt: int, *, law: tuple[str, str]) -> None:
    name, argument = law
    by = put(node, _aten.expand.default, arguments_of(node)[argument], list(node.meta["val"].shape))
    put_in_place_of(node, put(node, draw_by_operator(), seed, by, name, salt))


def _draw_normal(node: Node, seed: Node, salt: int) -> None:
    told = arguments_of(node)
    spread = put(node, _aten.mul.Tensor, _drawn(node, seed, salt, "normal", 0, 1), told["std"])
    put_in_place_of(node, put(node, _aten.add.Tensor, spread, told["mean"]))


def _draw_slopes(node: Node, seed: Node, salt: int) -> None:
    """Of what is not above 0; the rest is as it was. The noise is what it was multiplied by."""
    told = arguments_of(node)
    slopes = _drawn(node, seed, salt, "uniform", told["lower"], told["upper"])
    below = put(node, _aten.le.Scalar, told["self"], 0)
    noise = put(node, _aten.where.ScalarOther, below, slopes, 1.0)
    put(node, _aten.copy_.default, told["noise"], noise)
    put_in_place_of(node, put(node, _aten.mul.Tensor, told["self"], noise))


DRAWN: Mapping[OpOverload, Callable[[Node, Node, int], None]] = {
    **{target: partial(_draw, law=law) for target, law in _LAWS.items()},
    **{target: partial(_draw_by, law=law) for target, law in _LAWS_BY.items()},
    **dict.fromkeys(_NORMALS, _draw_normal),
    **dict.fromkeys(_RELUS, _draw_slopes),
}
"""What puts draws by the seed, an argument, and a salt in the place of a call."""
