# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""PyTorch operators of a training step: an update of one parameter by each optimizer, and norms that clip it.

An update is ``hetpart::adamw(parameter, gradient, exp_avg, exp_avg_sq, progress, scale, record)``, which returns the
new content of the parameter and of its state, and ``hetpart::adamw_``, which writes it where the old one lies.
``progress`` is float64: the number of the update, from 1, the factor of a schedule, that of the gradient, 0 where
gradients are collected and nothing is updated, and the number of the part of the batch, from 0. ``scale``, of one
element, multiplies the gradient too; where it is infinite, as after an overflow in half precision, nothing is
updated. ``hetpart::adamw_half`` takes a gradient in half precision, and has one more state: the parameter rounded,
which is what a step reads.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import torch

from hetpart.errors import InvalidFeedError
from hetpart.training import optimizers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

    from hetpart.training.optimizers import Optimizer
    from hetpart.training.optimizers.groups import AnyOptimizer

NAMESPACE = "hetpart"
DENSE = ("SGD", "Momentum", "Adam", "AdamW", "Adagrad", "FTRL")
HALF = "half"
LEFT_OUT = inf
"""The scale of an update that is not to be made; no norm is clipped by it."""
NUMBER = torch.float64
"""What norms and scales are in."""
LEAST_NORM = 1e-15
"""Below it, squares of elements that count are less than float32 holds in full."""
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")


def record_text(optimizer: AnyOptimizer) -> str:
    """``optimizer`` as an operator takes it: JSON of its class and fields."""
    return json.dumps({"class": type(optimizer).__name__, **asdict(optimizer)}, sort_keys=True)  # pyright: ignore[reportArgumentType]


@cache
def record_of(text: str) -> Optimizer:
    """The optimizer that ``text`` describes."""
    fields = json.loads(text)
    return getattr(optimizers, fields.pop("class"))(**fields)


def update_of(optimizer: Optimizer, *, halved: bool = False) -> OpOverload:
    """The operator that makes the updates of ``optimizer``."""
    name = f"{type(optimizer).__name__.lower()}{'_half' if halved else ''}"
    return getattr(getattr(torch.ops, NAMESPACE), name).default


@dataclass(frozen=True, slots=True)
class Said:
    """What an update is told."""

    number: int
    """Of the update, from 1."""
    rate: float
    """What multiplies the optimizer's rate."""
    factor: float
    """What multiplies the gradient."""


def told(progress: torch.Tensor, scale: torch.Tensor | None) -> Said | None:
    """What the arguments of an update say; ``None`` where nothing is to be updated.

    Raises:
        InvalidFeedError: there is no such update.
    """
    number, rate, factor, *_ = progress.tolist()
    clipped = 1.0 if scale is None else float(scale)
    if not factor or clipped == LEFT_OUT:
        return None
    if number < 1:
        raise InvalidFeedError(f"an update cannot be number {number:g}", hint="updates are counted from 1 in progress")
    return Said(int(number), rate, factor * clipped)


def _in_place(names: tuple[str, ...]) -> Callable[..., None]:
    def update(parameter: torch.Tensor, gradient: torch.Tensor, *rest: Any) -> None:
        state = dict(zip(names, rest, strict=False))
        progress, scale, text = rest[len(names) :]
        said = told(progress, scale)
        if said is not None:
            record, half = record_of(text), state.pop(HALF, None)
            told_so: Any = {"step": said.number, "lr": record.lr * said.rate, "scale": said.factor}
            if half is None:
                record.update_(parameter, gradient, state, **told_so)
            else:
                optimizers.update_master_(record, parameter, half, gradient, state, **told_so)

    return update


def _functional(names: tuple[str, ...], update: Callable[..., None]) -> Callable[..., Any]:
    count = len(names)

    def updated(parameter: torch.Tensor, gradient: torch.Tensor, *rest: Any) -> Any:
        made = [tensor.clone() for tensor in (parameter, *rest[:count])]
        update(made[0], gradient, *made[1:], *rest[count:])
        return tuple(made) if count else made[0]

    return updated


def _described(count: int) -> Callable[..., Any]:
    def described(parameter: torch.Tensor, gradient: torch.Tensor, *rest: Any) -> Any:
        del gradient
        made = [torch.empty_like(tensor) for tensor in (parameter, *rest[:count])]
        return tuple(made) if count else made[0]

    return described


def _define(name: str, more: tuple[str, ...] = ()) -> None:
    names: tuple[str, ...] = (*getattr(optimizers, name).state_names, *more)
    rest = "Tensor progress, Tensor? scale, str record"
    states, written = "".join(f"Tensor {s}, " for s in names), "".join(f"Tensor({s}!) {s}, " for s in names)
    results = f"({', '.join(['Tensor'] * (1 + len(names)))})" if names else "Tensor"
    op, update = "_".join([name.lower(), *more]), _in_place(names)
    _LIBRARY.define(f"{op}(Tensor parameter, Tensor gradient, {states}{rest}) -> {results}")
    _LIBRARY.define(f"{op}_(Tensor(parameter!) parameter, Tensor gradient, {written}{rest}) -> ()")
    _LIBRARY.impl(op, _functional(names, update), "CompositeExplicitAutograd")
    _LIBRARY.impl(f"{op}_", update, "CompositeExplicitAutograd")
    _LIBRARY.impl(op, _described(len(names)), "Meta")


def _collect(collected: torch.Tensor, gradient: torch.Tensor, progress: torch.Tensor) -> None:
    """Add a gradient to those of the parts of a batch before it; the first part's begins anew."""
    if progress[3] == 0:
        collected.copy_(gradient)
    else:
        collected.add_(gradient)


def _collect_part(collected: torch.Tensor, part: torch.Tensor, progress: torch.Tensor) -> None:
    """Keep what a part of a batch was, at its number."""
    collected[int(progress[3])].copy_(part)


def _define_collecting(name: str, collect: Callable[..., None]) -> None:
    def collected(before: torch.Tensor, part: torch.Tensor, progress: torch.Tensor) -> torch.Tensor:
        made = before.clone()
        collect(made, part, progress)
        return made

    _LIBRARY.define(f"{name}(Tensor collected, Tensor part, Tensor progress) -> Tensor")
    _LIBRARY.define(f"{name}_(Tensor(collected!) collected, Tensor part, Tensor progress) -> ()")
    _LIBRARY.impl(name, collected, "CompositeExplicitAutograd")
    _LIBRARY.impl(f"{name}_", collect, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, _like, "Meta")


def _like(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(tensor)


def one_number(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    """What a norm or a scale is in, [1]: the square of a float is none that float32 holds, from 1.8e19 on."""
    return tensor.new_empty(1, dtype=NUMBER)


def square_of(gradient: torch.Tensor) -> torch.Tensor:
    """The square of a norm, []: finite where the gradient is one of floats or halves and is finite itself.

    In full precision of what half precision holds: within a session of ONNX Runtime a half may be a float yet.
    """
    norm = torch.linalg.vector_norm(gradient, dtype=torch.promote_types(gradient.dtype, torch.float32))
    if not LEAST_NORM < float(norm) < inf:  # its square is none of float32's, or hardly one
        norm = torch.linalg.vector_norm(gradient, dtype=NUMBER)
    return norm.to(NUMBER).square()


def _square_norm(gradient: torch.Tensor) -> torch.Tensor:
    return square_of(gradient).reshape(1)


def _clipped(norm: torch.Tensor, progress: torch.Tensor, most: float, leaving: bool) -> torch.Tensor:
    """What multiplies gradients of one ``norm`` so that it is ``most`` at most; ``progress`` says what does beside.

    As ``torch.nn.utils.clip_grad_norm_`` does: an infinite norm makes finite gradients 0, and one that is no number
    makes all so. With ``leaving`` such updates are not to be made.
    """
    found = float(norm) * float(progress[2])
    clipped = min(most / (found + 1e-6), 1.0)  # in this order NaN stays
    return norm.new_tensor([LEFT_OUT if leaving and not isfinite(found) else clipped])


def _register() -> None:
    for name in DENSE:
        _define(name)
        _define(name, (HALF,))
    _define_collecting("collect", _collect)
    _define_collecting("collect_part", _collect_part)
    _LIBRARY.define("square_norm(Tensor gradient) -> Tensor")
    _LIBRARY.impl("square_norm", _square_norm, "CompositeExplicitAutograd")
    _LIBRARY.impl("square_norm", one_number, "Meta")
    _LIBRARY.define("clipped(Tensor norm, Tensor progress, float most, bool leaving) -> Tensor")
    _LIBRARY.impl("clipped", _clipped, "CompositeExplicitAutograd")
    _LIBRARY.impl("clipped", one_number, "Meta")


_register()
