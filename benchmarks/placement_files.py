"""Reads files in the format of `msr-fiddle/dnn-partitioning`: nodes with two latencies, a size and a colour, and edges.

What cannot be understood is refused by one message that names the file and the node or edge.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from math import inf, isfinite, lcm
from typing import TYPE_CHECKING, Any, cast

from hetpart.errors import HetpartError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

UNSUPPORTED = inf
MOST_UNITS = 2**53
"""What the sizes of a file add up to at most, in their unit: so far doubles count without rounding."""
NODE, EDGE = "node", "edge"

Key = str | int | float


class UnreadableGraphError(HetpartError):
    """A file is no placement graph."""


@dataclass(frozen=True, slots=True)
class Node:
    """One op."""

    key: Key
    host_seconds: float
    accelerator_seconds: float
    size: Fraction
    colour: Key | None
    """Nodes of one colour share a device."""


@dataclass(frozen=True, slots=True)
class Edge:
    """What ``target`` reads of ``source``."""

    source: Key
    target: Key
    seconds: float


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A file as it is; ``nodes`` in a topological order, ties in the file's order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def read(cls, path: Path) -> GraphFile:
        """What ``path`` holds.

        Raises:
            UnreadableGraphError: it is no placement graph.
        """
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UnreadableGraphError(f"{path.name}: cannot be read as JSON: {error}") from error
        try:
            return cls._of(content)
        except UnreadableGraphError as error:
            raise UnreadableGraphError(f"{path.name}: {error.message}") from error

    @classmethod
    def _of(cls, content: object) -> GraphFile:
        read = [_node(row) for row in _rows(content, "nodes")]
        nodes = {node.key: node for node in read}
        if len(nodes) < len(read):
            doubled = next(node.key for node in read if nodes[node.key] is not node)
            raise UnreadableGraphError(f"{len(read) - len(nodes)} of {len(read)} nodes repeat an id, as {doubled!r}")
        edges = tuple(map(_edge, _rows(content, "edges")))
        unknown = [key for edge in edges for key in (edge.source, edge.target) if key not in nodes]
        if unknown:
            raise UnreadableGraphError(f"{len(unknown)} ends of edges are ids of no node, as {unknown[0]!r}")
        _require_homes(nodes.values())
        return cls(tuple(nodes[key] for key in _in_order(nodes, edges)), edges)


def whole_sizes(nodes: Sequence[Node]) -> list[int]:
    """Sizes of ``nodes`` in whole units: of a byte where all are whole, else of a fraction that makes all so.

    Where no such unit leaves the sum countable, sizes are rounded to one that does, a part in 10^16 of the sum.
    """
    written = [node.size for node in nodes]
    for sizes in (written, [Fraction(float(size)) for size in written]):  # as 0.4, and as 0.633766174316406(25)
        scale = lcm(*(size.denominator for size in sizes))
        if sum(sizes) * scale <= MOST_UNITS:
            return [int(size * scale) for size in sizes]
    scale = MOST_UNITS / sum(written)
    return [round(size * scale) for size in written]


def _rows(content: object, name: str) -> list[dict[str, Any]]:
    rows = cast("dict[str, Any]", content).get(name) if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast("list[object]", rows)):
        raise UnreadableGraphError(f"no list of objects {name!r}")
    return cast("list[dict[str, Any]]", rows)


def _node(row: dict[str, Any]) -> Node:
    key = _key(row, "id", NODE)
    what = f"{NODE} {key!r}"
    colour = None if row.get("colorClass") is None else _key(row, "colorClass", what)
    there = _number(row, "fpgaLatency", what) if _present(row, "supportedOnFpga", what) else UNSUPPORTED
    size = _number(row, "size", what)
    if not isfinite(size):
        raise UnreadableGraphError(f"{what}: size is {size}")
    # As it is written: 0.4 is two fifths, not the nearest double.
    return Node(key, _number(row, "cpuLatency", what), there, Fraction(repr(row["size"])), colour)


def _edge(row: dict[str, Any]) -> Edge:
    source, target = _key(row, "sourceId", EDGE), _key(row, "destId", EDGE)
    what = f"{EDGE} {source!r} -> {target!r}"
    seconds = _number(row, "cost", what)
    if not isfinite(seconds):
        raise UnreadableGraphError(f"{what}: cost is {seconds}")
    return Edge(source, target, seconds)


def _present(row: dict[str, Any], name: str, what: str) -> Any:
    if row.get(name) is None:
        raise UnreadableGraphError(f"{what} has no {name}")
    return row[name]


def _key(row: dict[str, Any], name: str, what: str) -> Key:
    found = _present(row, name, what)
    if not isinstance(found, (str, int, float)):
        raise UnreadableGraphError(f"{what}: {name} is no number or text: {found!r}")
    return found


def _number(row: dict[str, Any], name: str, what: str) -> float:
    """A latency may be infinite: the node cannot run there."""
    found = _present(row, name, what)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise UnreadableGraphError(f"{what}: {name} is no number: {found!r}")
    number = inf if found > 1e300 else float(found)
    if not number >= 0:
        raise UnreadableGraphError(f"{what}: {name} is {found}, which is not zero or more")
    return number


def _require_homes(nodes: Iterable[Node]) -> None:
    """Each node, and all nodes of a colour together, may run somewhere."""
    allowed: dict[tuple[str, Key], tuple[bool, bool]] = {}
    for node in nodes:
        group = (NODE, node.key) if node.colour is None else ("colorClass", node.colour)
        host, there = allowed.get(group, (True, True))
        allowed[group] = (host and isfinite(node.host_seconds), there and isfinite(node.accelerator_seconds))
    for (kind, key), sides in allowed.items():
        if not any(sides):
            raise UnreadableGraphError(f"{kind} {key!r} may run on neither device")


def _in_order(nodes: dict[Key, Node], edges: tuple[Edge, ...]) -> list[Key]:
    """Each node after those it reads from, ties in the file's order."""
    sorter: TopologicalSorter[Key] = TopologicalSorter(dict.fromkeys(nodes, ()))
    for edge in edges:
        sorter.add(edge.target, edge.source)
    try:
        return list(sorter.static_order())
    except CycleError as error:
        raise UnreadableGraphError(f"edges form a cycle: {' -> '.join(map(str, error.args[1]))}") from error
