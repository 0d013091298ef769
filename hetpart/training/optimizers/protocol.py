"""What a training step asks of an optimizer: one update of one tensor, in place."""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from torch import Tensor

STATE = "optimizer/"
"""Names of optimizer state begin with it: ``optimizer/exp_avg/encoder.weight``. Others are the module's own."""
UNLISTED = "unlisted"
"""The key of a checkpoint's metadata for names that no ``state_dict`` of the module has."""
State: TypeAlias = dict[str, Tensor]
"""One tensor per name of ``state_names``, each of the parameter's shape."""


@runtime_checkable
class Optimizer(Protocol):
    """Updates a whole parameter from a gradient of its shape."""

    state_names: ClassVar[tuple[str, ...]]

    @property
    def lr(self) -> float:
        """The rate of the record; ``update_`` is told the rate of its step."""
        ...

    def init(self, parameter: Tensor) -> State:
        """The state before the first update, on the parameter's device and of its dtype."""
        ...

    def update_(
        self, parameter: Tensor, gradient: Tensor, state: State, step: int, lr: float, scale: float = 1.0
    ) -> None:
        """Make update number ``step``, counted from 1, of ``parameter`` and ``state`` in place.

        ``scale`` multiplies the gradient first, whose content stays: it may be a constant, or another parameter's
        too. It is scaled, and cast where it is of another dtype, in blocks that fit the caches.
        """
        ...


@runtime_checkable
class RowOptimizer(Protocol):
    """Updates the rows of a table that a batch touched, and nothing else of it."""

    state_names: ClassVar[tuple[str, ...]]

    @property
    def lr(self) -> float: ...

    def init(self, table: Tensor) -> State:
        """The state before the first update. Rows that no update touches cost no memory where it starts at zero."""
        ...

    def initial(self, name: str) -> float:
        """The number that every element of the state ``name`` starts at: for states that are made elsewhere."""
        ...

    def update_rows_(  # noqa: PLR0913 - `update_`, and which rows
        self, table: Tensor, rows: Tensor, gradient: Tensor, state: State, step: int, lr: float, scale: float = 1.0
    ) -> None:
        """Make update number ``step``, counted from 1, of ``table[rows]`` and their state in place.

        ``table`` is [V, d], ``rows`` int64 [U] without repetition, ``gradient`` [U, d].
        """
        ...
