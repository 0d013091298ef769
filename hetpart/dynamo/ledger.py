"""What is left of budgets when a model is compiled in several graphs, each of which stays loaded."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from hetpart.dynamo.patterns import Patterns

if TYPE_CHECKING:
    from hetpart.plan.model import Plan

_SAID_BY_BUDGET = ("budget", "host_budget", "headroom")


class Ledger:
    """What the graphs of one ``options`` of ``torch.compile`` share: the bytes of its budgets, and its patterns."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = options  # held, so that no other object is known by its id
        self.patterns = Patterns()
        weakref.finalize(self, self.patterns.tell)
        self._budgets: dict[str, int] = {}
        self._taken: Counter[str] = Counter()
        self._turn = RLock()  # what dies while it is held leaves it

    def left(self, planning: Mapping[str, Any]) -> dict[str, Any]:
        """``planning`` with the budgets that are left of those it names."""
        with self._turn:
            if not self._taken:
                return dict(planning)
            budgets = {device: max(0, nbytes - self._taken[device]) for device, nbytes in self._budgets.items()}
        return {name: given for name, given in planning.items() if name not in _SAID_BY_BUDGET} | {"budget": budgets}

    def enter(self, owner: object, plan: Plan) -> Callable[[], object]:
        """Take what ``plan`` takes at most, for as long as ``owner`` lives or until what is returned is called."""
        taken = {use.device: use.peak_bytes for use in plan.devices if use.budget_bytes is not None}
        with self._turn:
            if not self._taken:
                self._budgets = {use.device: use.budget_bytes for use in plan.devices if use.budget_bytes is not None}
            self._taken.update(taken)
        return weakref.finalize(owner, self._leave, taken)

    def _leave(self, taken: Mapping[str, int]) -> None:
        with self._turn:
            self._taken.subtract(taken)
            self._taken += Counter()  # what is zero is none


_ledgers: WeakValueDictionary[int, Ledger] = WeakValueDictionary()
"""By the identity of ``options``, which a ledger holds. One that no compiled graph uses has nothing to remember."""


def ledger_of(options: Mapping[str, Any] | None) -> Ledger:
    """The ledger of the ``options`` object of a call of ``torch.compile``."""
    found = _ledgers.get(id(options))
    if found is None:
        found = _ledgers[id(options)] = Ledger(options)
    return found
