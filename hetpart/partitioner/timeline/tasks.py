"""What has to be done in one run, as tasks on lanes, and how long the chains through each of them are."""

from __future__ import annotations

from dataclasses import dataclass, field

Order = tuple[int, ...]
"""Tasks in an order in which every one comes after those that it waits for."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks by number. A lane does one at a time; lanes work at the same time."""

    seconds: tuple[float, ...]
    lanes: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    """Per task: those that end before it starts, each of a lower number. So the numbers are an order to run them in."""
    heads: tuple[float, ...] = field(init=False)
    """Per task: the longest chain of tasks that must come before it, in seconds."""
    tails: tuple[float, ...] = field(init=False)
    """Per task: the longest chain that must come after it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(_heads(self)))
        object.__setattr__(self, "tails", tuple(_tails(self)))

    def __len__(self) -> int:
        return len(self.seconds)

    def waiting_also(self, more: list[tuple[int, int]]) -> Tasks:
        """The same tasks where for every (first, then) of ``more`` the one waits for the other too."""
        after = [set(own) for own in self.after]
        for first, then in more:
            after[then].add(first)
        return Tasks(self.seconds, self.lanes, tuple(tuple(sorted(own)) for own in after))

    def backwards(self) -> Tasks:
        """The tasks of the run played backwards; task ``i`` is the last but ``i``."""
        last = len(self) - 1
        after: list[list[int]] = [[] for _ in range(len(self))]
        for task, own in enumerate(self.after):
            for first in own:
                after[last - first].append(last - task)
        return Tasks(self.seconds[::-1], self.lanes[::-1], tuple(map(tuple, after)))


def _heads(tasks: Tasks) -> list[float]:
    heads: list[float] = []
    for own in tasks.after:
        heads.append(max([heads[first] + tasks.seconds[first] for first in own], default=0.0))
    return heads


def _tails(tasks: Tasks) -> list[float]:
    tails = [0.0] * len(tasks)
    for task in range(len(tasks) - 1, -1, -1):
        chain = tails[task] + tasks.seconds[task]
        for first in tasks.after[task]:
            tails[first] = max(tails[first], chain)
    return tails
