"""Which optimizer, with which rate and decay and on which device, updates which parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, cast, get_args

from torch import Tensor

from hetpart.errors import InvalidOptionError
from hetpart.training.limits import require_arguments
from hetpart.training.optimizers.checked import checked, require_optimizer
from hetpart.training.optimizers.protocol import Optimizer, RowOptimizer

Filter: TypeAlias = str | tuple[str, ...] | Callable[[str, Tensor], bool]
"""Patterns of names as the shell has them (``*.bias``), or a function of name and parameter."""
Target: TypeAlias = Literal["auto", "cpu", "cuda"]
TARGETS: tuple[str, ...] = get_args(Target)
AnyOptimizer: TypeAlias = Optimizer | RowOptimizer


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that ``match`` and what is particular to them; what is None is the default optimizer's."""

    match: Filter
    optimizer: AnyOptimizer | None = None
    lr: float | None = None
    weight_decay: float | None = None
    target: Target = "auto"
    """Where the updates run; ``auto`` leaves that to the placement."""

    def holds(self, name: str, parameter: Tensor) -> bool:
        if callable(self.match):
            return self.match(name, parameter)
        patterns = (self.match,) if isinstance(self.match, str) else self.match
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    def choose(self, default: AnyOptimizer) -> AnyOptimizer:
        """The optimizer of the group.

        Raises:
            InvalidOptionError: it has no field that the group sets.
        """
        optimizer = self.optimizer or default
        fields = {"lr": self.lr, "weight_decay": self.weight_decay}
        changed = {name: number for name, number in fields.items() if number is not None}
        missing = [name for name in changed if not hasattr(optimizer, name)]
        if missing:
            raise InvalidOptionError(
                f"group {self.match!r} sets {missing[0]}, which {type(optimizer).__name__} does not have",
                hint=f"leave {missing[0]} out, or give the group another optimizer",
            )
        return cast("AnyOptimizer", replace(cast("Any", optimizer), **changed)) if changed else optimizer


@dataclass(frozen=True, slots=True)
class Groups:
    """A parameter is of the first group that holds it, else of the default."""

    default: AnyOptimizer
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What updates one parameter."""

    optimizer: AnyOptimizer
    target: Target = "auto"
    group: int | None = None
    """Index in ``Groups.groups``; None for the default."""


def assign(optimizer: AnyOptimizer | Groups, parameters: Mapping[str, Tensor]) -> dict[str, Assignment]:
    """One assignment per parameter, in the order of ``parameters``.

    Raises:
        InvalidOptionError: a group holds no parameter, or sets what its optimizer does not have; an optimizer, a number
            or a target is none.
    """
    _require_groups(optimizer)
    rules = optimizer if isinstance(optimizer, Groups) else Groups(optimizer)
    chosen = {name: _assignment(rules, name, parameter) for name, parameter in parameters.items()}
    used = {assignment.group for assignment in chosen.values()}
    for index, group in enumerate(rules.groups):
        if index not in used:
            raise InvalidOptionError(
                f"group {index} ({group.match!r}) holds none of the {len(parameters)} parameters",
                hint="the first group that matches takes a parameter; one that is shared has the first of its names: "
                f"{_some(list(parameters))}",
            )
    return chosen


def _require_groups(given: Any) -> None:
    groups = _listed(given.groups) if isinstance(given, Groups) else ()
    for optimizer in (given.default if isinstance(given, Groups) else given, *(group.optimizer for group in groups)):
        if optimizer is not None:
            require_optimizer(optimizer)
    for group in groups:
        if group.target not in TARGETS:
            raise InvalidOptionError(
                f"the target of group {group.match!r} cannot be {group.target!r}", hint=f"it is {', '.join(TARGETS)}"
            )


def _listed(given: Any) -> Sequence[Group]:
    """The groups of ``Groups``, as its user typed them."""
    groups = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else (given,)
    wrong = [group for group in groups if not isinstance(group, Group)]
    if wrong or groups is not given:
        raise InvalidOptionError(
            f"the groups of Groups cannot be {(wrong or groups)[0]!r}",
            hint='they are a tuple of Group: Groups(AdamW(), (Group("*.bias", weight_decay=0.0),))',
        )
    for group in groups:
        _require_filter(group.match)
    return groups


def _require_filter(match: Any) -> None:
    if callable(match):
        require_arguments("the function of a group", match, 2, "it is a function of name and parameter")
        return
    patterns = cast("Sequence[Any]", match) if isinstance(match, list | tuple) else (match,)
    if not (patterns and all(isinstance(pattern, str) for pattern in patterns)):
        raise InvalidOptionError(
            f"a group cannot match {match!r}",
            hint='give a pattern of names, "*.bias", several, or a function of name and parameter',
        )


def _assignment(rules: Groups, name: str, parameter: Tensor) -> Assignment:
    for index, group in enumerate(rules.groups):
        if group.holds(name, parameter):
            return Assignment(checked(group.choose(rules.default)), group.target, index)
    return Assignment(checked(rules.default))


def _some(names: list[str], shown: int = 5) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
