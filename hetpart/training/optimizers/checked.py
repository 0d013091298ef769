"""Optimizers that a step can have, and numbers that they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hetpart.errors import InvalidOptionError
from hetpart.training.limits import ABOVE_0, FROM_0, Limits
from hetpart.training.optimizers.dense import SGD, Adagrad, Adam, AdamW, Momentum
from hetpart.training.optimizers.ftrl import FTRL
from hetpart.training.optimizers.rows import LazyAdam, SparseAdagrad, SparseFTRL, SparseSGD

KINDS = (SGD, Momentum, Adam, AdamW, Adagrad, FTRL, LazyAdam, SparseSGD, SparseAdagrad, SparseFTRL)
_DECAYS = Limits(below=1.0)
_LIMITS: Mapping[str, Limits] = {
    "beta1": _DECAYS,
    "beta2": _DECAYS,
    **dict.fromkeys(("lr", "eps", "weight_decay", "momentum", "dampening", "lr_decay"), FROM_0),
    **dict.fromkeys(("beta", "l1", "l2", "initial_accumulator"), FROM_0),
}
"""By the field."""
_DIVIDED_BY = (FTRL, SparseFTRL)
"""Optimizers whose formulas divide by the rate."""


def require_optimizer(given: Any) -> None:
    """See that ``given`` is an optimizer that a step can have.

    Raises:
        InvalidOptionError: it is none, or a class.
    """
    if type(given) in KINDS:
        return
    names = ", ".join(kind.__name__ for kind in KINDS)
    hint = f"it is one of hetpart.training's, {names}, or Groups of them"
    if isinstance(given, type):
        name = given.__name__ if given in KINDS else f"{given.__module__}.{given.__qualname__}"
        own = f"make one of it: {name}(lr=1e-3)" if given in KINDS else hint
        raise InvalidOptionError(f"optimizer cannot be the class {name}", hint=own)
    what = "None" if given is None else f"a {type(given).__module__}.{type(given).__qualname__}"
    raise InvalidOptionError(f"optimizer cannot be {what}", hint=hint)


def checked(optimizer: Any) -> Any:
    """``optimizer`` with its numbers as Python has them.

    Raises:
        InvalidOptionError: it is none, or a number of it cannot be.
    """
    require_optimizer(optimizer)
    kind = type(optimizer).__name__
    limits = {**_LIMITS, "lr": ABOVE_0 if isinstance(optimizer, _DIVIDED_BY) else FROM_0}
    numbers = [field.name for field in fields(optimizer) if field.name in limits]
    found = {name: limits[name].number(f"{name} of {kind}", getattr(optimizer, name)) for name in numbers}
    made = replace(optimizer, **found)
    if isinstance(made, Momentum):
        _require_nesterovs(made)
    return made


def _require_nesterovs(rule: Momentum) -> None:
    """As ``torch.optim.SGD`` has it."""
    if type(rule.nesterov) is not bool:
        raise InvalidOptionError(f"nesterov of Momentum cannot be {rule.nesterov!r}", hint="it is True or False")
    if rule.nesterov and (rule.momentum <= 0 or rule.dampening):
        raise InvalidOptionError(
            f"nesterov of Momentum cannot be True with a momentum of {rule.momentum:g} and a dampening of "
            f"{rule.dampening:g}",
            hint="Nesterov's rule has a momentum above 0 and no dampening",
        )
