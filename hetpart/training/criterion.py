"""What computes a loss, for a trace: a model and a function of it, watched for what no trace follows.

A function that is a module itself has to stay as it is: a step trains and keeps what its model holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from hetpart.errors import InvalidModelError
from hetpart.training.averaged import averaged
from hetpart.training.followed import NoHooks, require_followed
from hetpart.training.held import Assigned, require_undrawn
from hetpart.training.left import Left
from hetpart.training.toggled import require_untoggled

LossFunction = Callable[..., Tensor]
_ONE = "hand in one module that has the model and what its loss needs, and a function that calls both"


class Loss(nn.Module):
    """``loss_fn(model, *batch)``, with what the model assigned to its buffers behind it."""

    def __init__(self, model: nn.Module, loss_fn: LossFunction) -> None:
        super().__init__()
        self.model = model
        self.assigned, self.left = Assigned(), Left(model)
        vars(self)["_loss_fn"] = loss_fn  # no part of what a step trains and keeps, where it is a module itself
        self.training = model.training

    def called(self, *batch: Any) -> tuple[Tensor, ...]:
        """The loss, and contents of buffers."""
        model, loss_fn = self.model, vars(self)["_loss_fn"]
        with (
            NoHooks(), unchanged(loss_fn), require_undrawn(model), self.left.watching(), self.assigned.by(model),
            averaged(model), require_untoggled(model),
        ):  # fmt: skip
            loss = loss_fn(model, *batch)
        require_followed(loss)
        return loss, *self.assigned.contents.values()

    # PyTorch notes lines of functions that are called so, as an op's in the user's code, and this is none.
    forward = called


def require_no_parameters(loss_fn: Any, model: nn.Module) -> None:
    """See that ``loss_fn`` has no parameters to train beside those of ``model``.

    Raises:
        InvalidModelError: it has.
    """
    known = {id(parameter) for parameter in model.parameters()}
    for name, parameter in loss_fn.named_parameters() if isinstance(loss_fn, nn.Module) else ():
        if parameter.requires_grad and id(parameter) not in known:
            raise InvalidModelError(
                f"loss_fn has a parameter of its own, {name!r}, and a step trains those of its model",
                hint=f"{_ONE}; or freeze it: requires_grad_(False)",
            )


@contextmanager
def unchanged(loss_fn: Any) -> Generator[None]:
    """See that ``loss_fn`` is what it was once it has computed a loss, as far as attributes of modules tell.

    Raises:
        InvalidModelError: it is not, or draws numbers.
    """
    if not isinstance(loss_fn, nn.Module):
        yield
        return
    assigned, left = Assigned(), Left(loss_fn)
    with require_undrawn(loss_fn), left.watching(), assigned.by(loss_fn):
        yield
    changed = [*assigned.contents, *(f"{path}.{name}".removeprefix(".") for path, name in left.values)]
    if changed:
        raise InvalidModelError(
            f"loss_fn changes {changed[0]!r} of itself, and a step keeps what its model holds: every call would "
            "compute with what is there now",
            hint=_ONE,
        )
