"""Patterns of options when a model is compiled in several graphs: each is for the graphs that it matches.

One that matches none has no effect, and only the user knows whether a graph is still to come. So every plan notes it,
and a warning tells when the model is called again, or no graph is left of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetpart.config import parse_pins
from hetpart.constraints import parse_colocations
from hetpart.errors import HetpartWarning
from hetpart.partitioner.pins import hint_of, matches, names_of

if TYPE_CHECKING:
    from hetpart.config import OpPattern, Pin
    from hetpart.graph.ir import Graph


@dataclass(slots=True)
class _Missed:
    """A pattern that has matched no graph as yet, and what it could have matched."""

    pattern: Pin | OpPattern
    names: set[str] = field(default_factory=set[str])
    graphs: set[str] = field(default_factory=set[str])


class Patterns:
    """The patterns of one ``options`` of ``torch.compile``."""

    def __init__(self) -> None:
        self._missed: dict[str, _Missed] = {}
        self._settled: set[str] = set()
        self._weighted = False

    def divided(self, options: Mapping[str, Any], graph: Graph) -> tuple[dict[str, Any], tuple[str, ...]]:
        """``options`` with the patterns alone that match an op of ``graph``, and notes on the others."""
        others: list[str] = []

        def match(what: str, pattern: Pin | OpPattern) -> bool:
            found = any(matches(pattern, op) for op in graph.ops)
            text = f"{what} {pattern.text!r}"
            if found:
                self._settle(text)
            else:
                self._miss(text, pattern, graph)
                others.append(f"the {text} matches no op of this graph")
            return found

        pins = [pin.text for pin in parse_pins(options.get("pin")) if match("pin", pin)]
        sets = [
            ",".join(one.text for one in colocation.patterns if match("colocation", one))
            for colocation in parse_colocations(options.get("colocate"))
        ]
        own = {"pin": pins, "colocate": list(filter(None, sets))}
        return {name: own.get(name, given) for name, given in options.items()}, tuple(others)

    def _settle(self, text: str) -> None:
        self._settled.add(text)
        self._missed.pop(text, None)

    def _miss(self, text: str, pattern: Pin | OpPattern, graph: Graph) -> None:
        if text in self._settled:
            return
        missed = self._missed.setdefault(text, _Missed(pattern))
        missed.graphs.add(graph.name)
        missed.names.update(name for op in graph.ops for name in names_of(pattern.kind, op))

    def called(self, *, weighted: bool, again: bool) -> None:
        """A graph is called, ``again`` with the weights that it had before: so the model is, where it has weights.

        What has none may be called many times in one call of the model.
        """
        self._weighted |= weighted
        if again and self._missed and (weighted or not self._weighted):
            self.tell()

    def tell(self) -> None:
        """Warn of the patterns that match no op of any graph so far, once."""
        for text, missed in list(self._missed.items()):
            self._settle(text)
            number = len(missed.graphs)
            which = "the graph that" if number == 1 else f"any of the {number} graphs that"
            said = f"the {text} matches no op of {which} torch.compile has handed over"
            warnings.warn(f"{said}\n  hint: {hint_of(missed.pattern, missed.names)}", HetpartWarning, stacklevel=2)
