"""What a plan takes for granted of the sizes and numbers that it leaves to its runs, and how a run is asked for them.

Code that branches on a size was exported on the way of its example: at a size that goes another way the plan would
answer wrongly. A plan file may come from anywhere: of its conditions nothing is run but arithmetic and comparisons.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, MappingProxyType
from typing import Any

from hetpart.errors import InvalidFeedError

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"abs": abs, "float": float, "int": int, "max": max, "min": min, "round": round}
)
"""What a condition may call, besides those of ``math``."""
_OF_MATH = frozenset({"ceil", "floor", "inf", "sqrt", "trunc"})
_MATH = "math"
NAMES = frozenset({*FUNCTIONS, _MATH})
"""What no size may be called."""
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_PARTS = (ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)
_PLAIN = (*_PARTS, *_ARITHMETIC, ast.boolop, ast.unaryop, ast.cmpop, ast.Load, ast.Name)


@dataclass(frozen=True, slots=True)
class OpenSize:
    """A size, or a number, that every run may have another of."""

    name: str
    """What conditions call it."""
    input: str
    axis: int | None
    """Whose size it is; ``None`` for the number that the input is."""
    example: int
    """What it was in the example."""


@dataclass(frozen=True, slots=True)
class Granted:
    """Conditions on sizes; nothing of a plan that leaves none open, or was made of a model without code."""

    sizes: tuple[OpenSize, ...] = ()
    conditions: tuple[str, ...] = ()
    """As Python: ``(rows % 2) == 0``. All of them hold in the example."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of them."""
        listed = ", ".join(self.conditions)
        return (f"for calls where {listed}: a session refuses others",) if listed else ()


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One that can be asked."""

    text: str
    names: frozenset[str]
    code: CodeType

    @classmethod
    def read(cls, text: str) -> Condition:
        """Of its text.

        Raises:
            ValueError: it is more than arithmetic and comparisons.
        """
        try:
            tree = ast.parse(text, mode="eval")
        except (SyntaxError, RecursionError) as error:
            raise ValueError(f"{text!r} is no condition: {error}") from error
        strange = next((node for node in ast.walk(tree) if not _is_plain(node)), None)
        if strange is not None:
            raise ValueError(f"{text!r} has {ast.unparse(strange) or type(strange).__name__}, which none may have")
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return cls(text, frozenset(named - NAMES), compile(tree, "<condition>", "eval"))

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it does at ``sizes``, by name."""
        try:
            return bool(eval(self.code, {"__builtins__": {}, _MATH: math, **FUNCTIONS}, dict(sizes)))
        except ArithmeticError:  # a division by a size of 0, at which the code would not have got here
            return False


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float, bool)
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == _MATH and node.attr in _OF_MATH
    if isinstance(node, ast.Call):
        return not node.keywords and (isinstance(node.func, ast.Attribute) or _is_function(node.func))
    return isinstance(node, _PLAIN)


def _is_function(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in FUNCTIONS


def violations_in(granted: Granted) -> Iterator[str]:
    """What is said of sizes that cannot be asked."""
    known = {size.name for size in granted.sizes}
    for text in granted.conditions:
        try:
            unknown = Condition.read(text).names - known
        except ValueError as error:
            yield str(error)
        else:
            yield from (f"{text!r} speaks of {name!r}" for name in sorted(unknown))


class Asking:
    """Asks what a call feeds whether all that is granted holds.

    Args:
        granted: Whose conditions can be read.
    """

    def __init__(self, granted: Granted) -> None:
        self._granted, self._sizes = granted, granted.sizes
        self._conditions = [Condition.read(text) for text in granted.conditions]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def __reduce__(self) -> tuple[type[Asking], tuple[Granted]]:
        """Code is not pickled: what is read anew is the text."""
        return Asking, (self._granted,)

    def require(self, given: Mapping[str, Any]) -> None:
        """Nothing of a size whose input is not in ``given``: arrays, tensors, OrtValues and numbers by name.

        Raises:
            InvalidFeedError: a condition does not hold.
        """
        sizes = {size.name: _size_in(size, given[size.input]) for size in self._sizes if size.input in given}
        for condition in self._conditions:
            if condition.names <= sizes.keys() and not condition.holds(sizes):
                shown = ", ".join(f"{name} is {sizes[name]}" for name in sorted(condition.names))
                raise InvalidFeedError(
                    f"the plan was made for calls where {condition.text}, and in this one {shown}",
                    hint="its code goes another way for others: partition the model again for such sizes and numbers",
                )


def _size_in(size: OpenSize, value: Any) -> int:
    if size.axis is None:
        return int(value.numpy() if hasattr(value, "numpy") else value)
    shape: Any = value.shape() if callable(value.shape) else value.shape
    return int(shape[size.axis])
