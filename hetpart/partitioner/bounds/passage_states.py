"""What is known, between two ops, of a placement of all ops before: the states of a passage through a problem.

A state says of every value that is still to be read where it lies, and what is to become of it: what a placement does
later is guessed when the value is made, and refused where a later op is placed otherwise. Of two states that are equal
the dearer one is forgotten, so a model that is narrow at every op has few.

A device holds weights, the most that ever lies in buffers between partitions, and the most that any partition has
inside. Of both it is counted what is certain. At waists and in blocks between two waists that are wholly on the
accelerator that is all there is: ops run in the order they have, partitions end where a waist is on the host or a block
is not whole, and all that enters a partition or leaves it is there for as long as it runs. In other blocks partitions
run in an order of their own: there what waits for an op is counted beside ops that its maker leads to, and that lead to
all that read it later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from hetpart.devices import HOST


class Label(IntEnum):
    """Where a value lies, and what is to come. What is made on the accelerator is read there alone unless copied."""

    ON_HOST = 0
    """Alone, so far."""
    BROUGHT = 1
    """Made on the host, and waits on the accelerator for another reader."""
    SPENT = 2
    """Made on the host, and read on the accelerator for the last time."""
    INSIDE = 3
    """In the partition that makes it, until its last reader there has run."""
    UNPROVEN = 4
    """In a buffer, for a later partition: something between is on the host, but nothing so far."""
    LEAVES = 5
    """In a buffer, for a later partition."""
    COPIED = 6
    """On the host as well, and read on the accelerator no more."""
    BOTH = 7
    """On the host as well, and waits on the accelerator for a later reader."""
    PROMISED = 8
    """The same, before anything has read it on the host."""


class Block(IntEnum):
    """Of ops between two waists, these included."""

    NONE = 0
    """The last op is a waist, and so is the next."""
    WHOLE = 1
    """All are on the accelerator."""
    PARTED = 2
    """One is on the host."""
    UNPROVEN = 3
    """One is on the host, but none so far."""


@dataclass(frozen=True, slots=True)
class State:
    """Between two ops."""

    labels: tuple[tuple[int, int], ...]
    """(value, label) of all that is still to be read; (−1 − group, device) of groups with ops on both sides."""
    block: Block
    held: int
    """Bytes of what entered or left the running partition and waits no more: it is there until that ends."""
    runs: bool
    """Whether the last waist's partition goes on, if that matters."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one state to the next."""

    seconds: float
    nbytes: float
    """Of weights, and of a session that begins."""
    between: int
    """Bytes certainly in buffers on the accelerator while the op runs, or beside it."""
    beside: int
    """The same beside what the state held before; less than 0 where that is not there any more."""
    inside: int
    held: int
    """Bytes that the state behind holds more than the one before."""
    keeps: bool
    """Whether it holds what that held."""
    side: int

    def then(self, step: Step) -> Step:
        """With another one behind it, of an op on the same device."""
        later = self.held + step.beside if step.beside >= 0 else -1
        return Step(
            self.seconds + step.seconds,
            self.nbytes + step.nbytes,
            max(self.between, step.between, -1 if self.keeps else later),
            max(self.beside, later if self.keeps else -1),
            max(self.inside, step.inside),
            step.held + (self.held if step.keeps else 0),
            self.keeps and step.keeps,
            step.side,
        )

    def most_between(self, held: int) -> int:
        """Bytes in buffers, where the state before held so many."""
        return max(self.between, held + self.beside if self.beside >= 0 else 0)


NO_STEP = Step(0.0, 0.0, 0, -1, 0, 0, True, HOST)
