"""The most memory that a session's arena has in use, run after run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from hetpart.cost_model.memory import Scratch
from hetpart.cost_model.session.arena import Arena, Chunk, Pattern
from hetpart.cost_model.session.reuse import Kernel, Made, Step, plan_buffers


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Bytes of a session's arena; weights, and what is prepacked of them, lie beside it."""

    in_use: int
    """At the peak, over all runs: what ONNX Runtime calls ``mem_in_use_peak``, less weights."""
    held: int
    """What the arena has asked of the system by then."""


def _nothing() -> None:
    """Where a kernel makes nothing by itself."""


def session_memory(
    kernels: Sequence[Kernel], kept: Iterable[int], weights: Iterable[int] = (), *, doubling: bool = True,
    thrifty: bool = False,
) -> SessionMemory:  # fmt: skip
    """What running ``kernels`` in order, and then again, takes of the arena.

    Args:
        kernels: In the order they run.
        kept: Values in memory of the caller.
        weights: Bytes of those that lie in the arena before the first run, and count as what they are.
        doubling: Whether the arena grows by doubling, as the CPU provider's does, or by what is asked for.
        thrifty: Whether every run takes buffer by buffer, and no buffer waits for another value of its shape. The CPU
            provider's arena is an exact one then.
    """
    arena = Arena(doubling=doubling, exact=thrifty and doubling)
    for nbytes in weights:
        arena.allocate(nbytes)
    before = arena.in_use
    steps = plan_buffers(kernels, kept, thrifty=thrifty)
    (_one_by_one if thrifty else _as_one_block)(steps, arena)
    return SessionMemory(arena.peak - before, arena.held - before)


def _one_by_one(steps: Sequence[Step], arena: Arena) -> None:
    """Runs until one asks the system for nothing, which all that follow repeat."""
    held = -1
    while held < arena.held:
        held = arena.held
        chunks: dict[int, list[Chunk]] = {}
        for step in steps:
            _work(step.scratch, arena, partial(_take, step.allocates, arena, chunks))
            _give_back(step, arena, chunks)


def _take(allocates: Sequence[Made], arena: Arena, chunks: dict[int, list[Chunk]]) -> None:
    for made in allocates:
        sizes = (made.nbytes,) if made.parts is None else made.parts
        chunks[made.value] = [arena.allocate(nbytes) for nbytes in sizes if nbytes]


def _as_one_block(steps: Sequence[Step], arena: Arena) -> None:
    """The first run takes every buffer by itself and notes when; later runs take one block, laid out by those notes."""
    pattern = Pattern()
    _first_run(steps, arena, pattern)
    block = arena.allocate(pattern.nbytes) if pattern.nbytes else None
    if any(made.parts for step in steps for made in step.allocates):
        _later_run(steps, arena)
    else:
        for scratch in dict.fromkeys(step.scratch for step in steps if step.scratch.blocks):
            _work(scratch, arena)
    if block is not None:
        arena.release(block)


def _first_run(steps: Sequence[Step], arena: Arena, pattern: Pattern) -> None:
    chunks: dict[int, tuple[Chunk, tuple[int, int]]] = {}
    sequences: dict[int, list[Chunk]] = {}
    for step in steps:

        def make(allocates: tuple[Made, ...] = step.allocates) -> None:
            for made in allocates:
                if made.parts is None and made.nbytes:
                    chunks[made.value] = (arena.allocate(made.nbytes), pattern.allocate(made.nbytes))
            _take_parts(allocates, arena, sequences)

        _work(step.scratch, arena, make)
        for value in step.releases:
            if value in chunks:
                chunk, block = chunks.pop(value)
                arena.release(chunk)
                pattern.release(block)
        _give_back(step, arena, sequences)


def _later_run(steps: Sequence[Step], arena: Arena) -> None:
    """What a run takes beside the block: sequences, whose sizes ONNX Runtime does not note, and scratch."""
    sequences: dict[int, list[Chunk]] = {}
    for step in steps:
        _work(step.scratch, arena, lambda step=step: _take_parts(step.allocates, arena, sequences))
        _give_back(step, arena, sequences)


def _take_parts(allocates: Sequence[Made], arena: Arena, sequences: dict[int, list[Chunk]]) -> None:
    for made in allocates:
        if made.parts:
            sequences[made.value] = [arena.allocate(nbytes) for nbytes in made.parts]


def _give_back(step: Step, arena: Arena, sequences: dict[int, list[Chunk]]) -> None:
    for value in step.releases:
        for chunk in sequences.pop(value, ()):
            arena.release(chunk)


def _work(scratch: Scratch, arena: Arena, make: Callable[[], None] = _nothing) -> None:
    """What a kernel takes while it runs, taken and given back moment by moment."""
    beginning: dict[int, list[int]] = {}
    ending: dict[int, list[int]] = {}
    for number, held in enumerate(scratch.blocks):
        beginning.setdefault(held.first, []).append(number)
        ending.setdefault(held.last, []).append(number)
    chunks: dict[int, Chunk] = {}
    for moment in scratch.moments():
        if moment == scratch.made_at:
            make()
        chunks.update((n, arena.allocate(scratch.blocks[n].nbytes)) for n in beginning.get(moment, ()))
        for number in ending.get(moment, ()):
            arena.release(chunks.pop(number))
