"""Labels of points, put where they cover little: greedy, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import cos, hypot, inf, pi, sin

_DIRECTIONS = 16
_DISTANCES = (6.0, 16.0, 30.0, 48.0, 70.0, 100.0, 140.0)
_OVERLAP_COST, _AREA_COST, _DOT_COST = 1000.0, 50.0, 12.0
"""A touch costs more than any distance: a sliver over another text is worse to read than a text further off."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels, y upwards."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """Area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def holds(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and self.right >= other.right
            and self.bottom <= other.bottom
            and self.top >= other.top
        )


@dataclass(frozen=True, slots=True)
class Label:
    """A text of this size that speaks of a dot."""

    x: float
    y: float
    radius: float
    width: float
    height: float


def place_labels(labels: Iterable[Label], room: Box, taken: Sequence[Box], dots: Sequence[Box]) -> list[Box]:
    """A box for every label, in ``room``, off the ``taken`` boxes and each other, and off the ``dots`` where it can."""
    placed: list[Box] = []
    for label in labels:
        reach = _reach(label)
        blocked = [box for box in (*taken, *placed) if box.overlap(reach) > 0]
        near = [dot for dot in dots if dot.overlap(reach) > 0]
        placed.append(min(_candidates(label), key=lambda box: _cost(box, label, room, blocked, near)))
    return placed


def _reach(label: Label) -> Box:
    """All that a candidate may cover."""
    away = label.radius + _DISTANCES[-1]
    across, up = away + label.width, away + label.height
    return Box(label.x - across, label.y - up, label.x + across, label.y + up)


def _candidates(label: Label) -> Iterator[Box]:
    """Boxes around the dot, the nearest first; each touches a circle about it on the side of its direction."""
    for distance in _DISTANCES:
        for step in range(_DIRECTIONS):
            angle = 2 * pi * step / _DIRECTIONS
            reach = label.radius + distance
            x, y = label.x + reach * cos(angle), label.y + reach * sin(angle)
            left = x - label.width * (1 - cos(angle)) / 2
            bottom = y - label.height * (1 - sin(angle)) / 2
            yield Box(left, bottom, left + label.width, bottom + label.height)


def _cost(box: Box, label: Label, room: Box, blocked: Iterable[Box], dots: Iterable[Box]) -> float:
    if not room.holds(box):
        return inf
    hidden = [area for other in blocked if (area := box.overlap(other)) > 0]
    covered = sum(box.overlap(dot) > 0 for dot in dots)
    away = hypot(max(box.left - label.x, 0, label.x - box.right), max(box.bottom - label.y, 0, label.y - box.top))
    return _OVERLAP_COST * len(hidden) + _AREA_COST * sum(hidden) + _DOT_COST * covered + away
