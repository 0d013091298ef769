# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Arguments that share memory, where code writes to one: a graph is right where they do as when it was traced.

Dynamo's guards say nothing of where views begin, and AOTAutograd bakes that into what it makes of them. So it does of
columns of one matrix, which it does not find to lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors
from torch.fx import Graph, Node

from hetpart.errors import InvalidFeedError

_CLONE = "give a clone of one of them, argument.clone()"
_ANEW = f"{_CLONE}, in every call, and call torch.compiler.reset() once before"
"""Of a graph that was made for arguments that share memory."""


@dataclass(slots=True, eq=False)
class Written:
    """Which arguments of a graph its code writes to: known when AOTAutograd has traced it."""

    places: set[int] = field(default_factory=set[int])

    def take(self, graph: Graph, metadata: Any, number: int) -> None:
        """Of what AOTAutograd made of ``number`` arguments; those that it took together count all as written to."""
        if metadata is None or not any(info.mutates_data for info in metadata.input_info):
            return
        placeholders = graph.find_nodes(op="placeholder")[len(metadata.tokens) :]
        changed = zip(placeholders, metadata.input_info, strict=False)
        described = [(getattr(node.meta.get("desc"), "idx", None), info) for node, info in changed]
        own = {place: info for place, info in described if isinstance(place, int)}
        self.places = {place for place, info in own.items() if info.mutates_data}
        self.places |= set(range(number)) - own.keys()


def together(graph: Graph) -> dict[int, int]:
    """How many elements those arguments of ``graph`` have that stand for several that share memory, by place."""
    nodes = enumerate(graph.find_nodes(op="placeholder"))
    sizes = {place: _elements(node) for place, node in nodes if hasattr(node.meta.get("desc"), "base_of")}
    return {place: size for place, size in sizes.items() if size is not None}


def _elements(node: Node) -> int | None:
    number = node.meta["val"].numel()
    return number if isinstance(number, int) else None


def require_traced(args: Sequence[Any], bases: Mapping[int, int]) -> None:
    """Refuse memory that several arguments lie in where it is larger or smaller than it was in the trace.

    Raises:
        InvalidFeedError: so it is.
    """
    for place, number in bases.items():
        if args[place].numel() != number:
            raise InvalidFeedError(
                f"arguments that share memory, of which one is written to, lie among {args[place].numel()} elements,"
                f" and the graph was traced for {number}",
                hint=_CLONE,
            )


class SameOverlap:
    """Calls ``compiled`` with arguments that share memory as those of the first call did.

    Args:
        compiled: A graph.
        written: Which arguments it writes to.
        names: What they are called.
    """

    def __init__(self, compiled: Callable[..., Any], written: Written, names: Sequence[str]) -> None:
        self._compiled, self._written, self._names = compiled, written.places, names
        self._first: dict[tuple[int, int], tuple[int, int]] | None = None

    def __call__(self, *args: Any) -> Any:
        """The graph's results.

        Raises:
            InvalidFeedError: the arguments share memory otherwise, or without PyTorch's knowing.
        """
        found = self._overlaps(args)
        first = found if self._first is None else self._first
        different = {pair for pair in found.keys() | first.keys() if found.get(pair) != first.get(pair)}
        if different:
            how = "not as" if different & found.keys() else "or do no longer, as they did"
            raise self._refusal(min(different), f"{how} when the graph was compiled", _ANEW if first else _CLONE)
        self._first = found
        return self._compiled(*args)

    def _overlaps(self, args: Sequence[Any]) -> dict[tuple[int, int], tuple[int, int]]:
        """By pair of places of which one is written to, where in their memory the two begin."""
        spans = [_span(place, arg) for place, arg in enumerate(args) if isinstance(arg, torch.Tensor) and arg.numel()]
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for pair in _touching(spans):
            if self._written.isdisjoint(pair):
                continue
            one, two = (args[place] for place in pair)
            if one.untyped_storage()._cdata != two.untyped_storage()._cdata:
                raise self._refusal(pair, "unknown to PyTorch, as memory is that came through DLPack")
            if compute_overlapping_tensors([one, two], symbolic=False):
                found[pair] = (one.storage_offset(), two.storage_offset())
        return found

    def _refusal(self, pair: tuple[int, int], why: str, hint: str = _CLONE) -> InvalidFeedError:
        one, two = (self._names[place] or f"argument {place}" for place in pair)
        return InvalidFeedError(f"{one} and {two}, of which one is written to, share memory, {why}", hint=hint)


def _span(place: int, tensor: torch.Tensor) -> tuple[int, int, int]:
    """Addresses that ``tensor`` lies between, and ``place``."""
    begin = tensor.data_ptr()
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes, place
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (reach + 1) * tensor.itemsize, place


def _touching(spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int]]:
    """Pairs of places, the lower one first, whose spans have an address in common."""
    ordered = sorted(spans)
    for number, (_, end, place) in enumerate(ordered):
        behind = number + 1
        while behind < len(ordered) and ordered[behind][0] < end:
            other = ordered[behind][2]
            yield min(place, other), max(place, other)
            behind += 1
