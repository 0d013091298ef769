"""The partition graph: a box for every partition in its device's column, an arrow for every copy between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hetpart.plan.model import Decision, Partition, Plan
from hetpart.report.escape import printable
from hetpart.report.page.drawing import cut, drawing, tag, text, text_width
from hetpart.report.page.evidence import Evidence
from hetpart.report.page.partition_edges import Arrow, Node, PartitionGraph
from hetpart.report.page.partition_tables import MOST_ROWS, copy_rows, partition_rows
from hetpart.report.page.parts import Drawing, Fold, Key, Part, Section, Words, device_head, hue_of
from hetpart.report.sentences import mostly
from hetpart.units import format_bytes, format_count, format_seconds

MOST_DRAWN = 48
"""Partitions; of more, the first."""
_BOX, _GUTTER, _EDGE = 236.0, 208.0, 26.0
_LEAST_HEIGHT, _CALLER_HEIGHT, _BREAK, _TOP = 62.0, 30.0, 18.0, 40.0
_PORT = 38.0
"""Between arrows at a side of a box: a label above and one below each."""
_LONGEST = _GUTTER - 64
"""Of a label along an arrow; the rest is for its bend."""
_Port = tuple[int, bool]
"""A row, and whether it is the right side of its box."""


def partition_graph(evidence: Evidence) -> Section:
    """Boxes by device in running order, copies with bytes and milliseconds, and both as tables."""
    plan = evidence.plan
    number = f"{format_count(len(plan.partitions), 'partition')}, {format_count(len(plan.transfers), 'copy')}"
    if not plan.partitions:
        return Section("partitions", "Partition graph", number, (Words("The model has no operator to run."),))
    parts: list[Part] = [_drawn(plan), Fold(_folded("Partitions", len(plan.partitions)), (partition_rows(plan),))]
    if plan.transfers:
        parts.append(Fold(_folded("Copies", len(plan.transfers)), (copy_rows(plan),)))
    else:
        parts.append(Words("Nothing crosses devices."))
    return Section("partitions", "Partition graph", number, tuple(parts))


def _folded(title: str, number: int) -> str:
    which = f", {MOST_ROWS:,} of {number:,}" if number > MOST_ROWS else ""
    return f"{title} as a table{which}"


def _drawn(plan: Plan) -> Drawing:
    columns = _columns(len(plan.devices))
    layout = _Layout.of(PartitionGraph.of(plan, MOST_DRAWN), columns)
    hidden = len(plan.partitions) - MOST_DRAWN
    left_out = f" The first {MOST_DRAWN:,} are drawn, {hidden:,} more are not." if hidden > 0 else ""
    caption = f"Top to bottom in running order. An arrow is a copy between devices; its time is predicted.{left_out}"
    width = 2 * _EDGE + len(columns) * _BOX + (len(columns) - 1) * _GUTTER
    elements = [*_heads(plan, columns), *layout.flows(), *layout.arrows(), *layout.boxes(plan)]
    keys = (Key("copy", "copy between devices"), Key("flow", "values handed on within a device"))
    devices = ", ".join(map(printable, plan.used_devices))
    said = f"{format_count(len(plan.partitions), 'partition')} in running order on {devices}"
    return Drawing(drawing(width, layout.height, elements), said, caption, keys)


def _columns(devices: int) -> list[int]:
    """Devices from left to right: the host, an end of every copy, in the middle."""
    before = (devices - 1) // 2
    return [*range(1, before + 1), 0, *range(before + 1, devices)]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where boxes lie. A box is high enough for the arrows at each of its sides to stand apart."""

    graph: PartitionGraph
    columns: Sequence[int]
    """The device in each."""
    tops: Sequence[float]
    heights: Sequence[float]

    @classmethod
    def of(cls, graph: PartitionGraph, columns: Sequence[int]) -> _Layout:
        ends = Counter(row for arrow in graph.arrows for row in (arrow.source, arrow.target))
        heights = [_height(node, ends[node.row]) for node in graph.nodes]
        tops, now = list[float](), _TOP
        for height in heights:
            tops.append(now)
            now += height + _BREAK
        return cls(graph, columns, tops, heights)

    @property
    def height(self) -> float:
        return self.tops[-1] + self.heights[-1] + 12

    def boxes(self, plan: Plan) -> Iterator[Markup]:
        """Every box with what it says."""
        by_op = {decision.op: decision for decision in plan.decisions}
        for node in self.graph.nodes:
            yield self._caller(node) if node.partition is None else self._box(node, node.partition, by_op)

    def _left(self, node: Node) -> float:
        return _left(self.columns.index(node.device))

    def _caller(self, node: Node) -> Markup:
        x, y, height = self._left(node), self.tops[node.row], self.heights[node.row]
        word = "outputs" if node.row else "inputs"
        shape = tag("rect", x=x, y=y, width=_BOX, height=height, rx=15, class_="caller")
        return tag("g", shape, text(x + _BOX / 2, y + height / 2 + 4, word, "faint", "middle"))

    def _box(self, node: Node, partition: Partition, by_op: Mapping[str, Decision]) -> Markup:
        x, y, height = self._left(node), self.tops[node.row], self.heights[node.row]
        hue, inner = hue_of(node.device), self._left(node) + 16
        ops = f"{format_count(len(partition.ops), 'op')}, {format_seconds(partition.seconds)}"
        sizes = f"weights {format_bytes(partition.weight_bytes)}, live {format_bytes(partition.peak_bytes)}"
        kinds = printable(mostly(partition, by_op))
        return tag(
            "g",
            tag("title", f"partition {partition.id} on {printable(partition.device)}: {ops}; {sizes}; {kinds}"),
            tag("rect", x=x, y=y, width=_BOX, height=height, rx=6, class_=f"part {hue}"),
            tag("rect", x=x, y=y, width=6.0, height=height, rx=3, class_=f"fill {hue}"),
            tag("text", tag("tspan", f"#{partition.id}", class_="strong"), f"  {ops}", x=inner, y=y + 20),
            text(inner, y + 37, sizes, "faint"),
            text(inner, y + 53, cut(kinds, _BOX - 26), "faint"),
        )

    def arrows(self) -> Iterator[Markup]:
        """Every copy, from the side of its box that faces the other one."""
        used = Counter[_Port]()
        totals = Counter(port for arrow in self.graph.arrows for port in self._ports(arrow))
        for arrow in self.graph.arrows:
            ports = self._ports(arrow)
            used.update(ports)
            yield _arrow(arrow, *(self._end(port, used[port] / (totals[port] + 1)) for port in ports))

    def _ports(self, arrow: Arrow) -> tuple[_Port, _Port]:
        left, right = (self._left(self.graph.nodes[row]) for row in (arrow.source, arrow.target))
        return (arrow.source, left <= right), (arrow.target, left > right)

    def _end(self, port: _Port, share: float) -> tuple[float, float]:
        """A place on the side of a box, at ``share`` of its height."""
        row, right = port
        return self._left(self.graph.nodes[row]) + (_BOX if right else 0), self.tops[row] + self.heights[row] * share

    def flows(self) -> Iterator[Markup]:
        """Lines between boxes of one device, around those that stand between them."""
        for source, target in self.graph.flows:
            first, last = self.graph.nodes[source], self.graph.nodes[target]
            between = self.graph.nodes[source + 1 : target]
            if any(node.device == first.device for node in between):
                yield self._around(first, last)
            else:
                x = self._left(first) + 30
                top, bottom = self.tops[source] + self.heights[source], self.tops[target]
                yield tag("path", d=f"M{x:.1f} {top:.1f}V{bottom:.1f}", class_="flow")

    def _around(self, source: Node, target: Node) -> Markup:
        outer_left = self.columns.index(source.device) == 0
        side, reach = (self._left(source), -20) if outer_left else (self._left(source) + _BOX, 20)
        first, last = (self.tops[node.row] + self.heights[node.row] / 2 for node in (source, target))
        away = side + reach
        curve = f"M{side:.1f} {first:.1f}C{away:.1f} {first:.1f} {away:.1f} {last:.1f} {side:.1f} {last:.1f}"
        return tag("path", d=curve, class_="flow")


def _arrow(arrow: Arrow, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    (x1, y1), (x2, y2) = start, end
    way = 1 if x2 > x1 else -1
    # Ends at the reader lie apart, and so do the labels there: the line is straight along all of a label.
    label = min(_LONGEST, max(map(text_width, (arrow.size, arrow.milliseconds))))
    flat, near = x2 - way * (label + 22), x2 - way * (label / 2 + 14)
    bend = (flat - x1) * 0.55
    curved = f"{x1 + bend:.1f} {y1:.1f} {flat - bend:.1f} {y2:.1f} {flat:.1f} {y2:.1f}"
    curve = f"M{x1:.1f} {y1:.1f}C{curved}H{x2 - way * 7:.1f}"
    return tag(
        "g",
        tag("title", arrow.values),
        tag("path", d=curve, class_="copy"),
        tag("path", d=f"M{x2:.1f} {y2:.1f}l{-way * 9} -4.5v9z", class_="copyhead"),
        text(near, y2 - 8, arrow.size, "halo figure", "middle"),
        text(near, y2 + 14, arrow.milliseconds, "halo figure faint", "middle"),
    )


def _height(node: Node, ends: int) -> float:
    least = _CALLER_HEIGHT if node.partition is None else _LEAST_HEIGHT
    return max(least, _PORT * (ends + 1)) if ends > 1 else least


def _left(column: int) -> float:
    return _EDGE + column * (_BOX + _GUTTER)


def _heads(plan: Plan, columns: Sequence[int]) -> Iterator[Markup]:
    for column, device in enumerate(columns):
        yield device_head(plan.devices[device], device, _left(column), 20.0)
