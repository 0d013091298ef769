"""The most memory that a session's arena has in use, run after run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetpart.cost_model.session.arena import Arena, Chunk, Pattern
from hetpart.cost_model.session.reuse import Kernel, Step, plan_buffers


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """Bytes of a session's arena; weights, and what is prepacked of them, lie beside it."""

    in_use: int
    """At the peak, over all runs: what ONNX Runtime calls ``mem_in_use_peak``, less weights."""
    held: int
    """What the arena has asked of the system by then."""


def session_memory(kernels: Sequence[Kernel], kept: Iterable[int], *, doubling: bool = True) -> SessionMemory:
    """What running ``kernels`` in order, and then again, takes of the arena.

    The first run takes every buffer by itself and notes when; later runs take one block, laid out by those notes.

    Args:
        kernels: In the order they run.
        kept: Values in memory of the caller.
        doubling: Whether the arena grows by doubling, as the CPU provider's does, or by what is asked for.
    """
    arena, pattern = Arena(doubling=doubling), Pattern()
    steps = plan_buffers(kernels, kept)
    _first_run(steps, arena, pattern)
    block = arena.allocate(pattern.nbytes) if pattern.nbytes else None
    for nbytes in {step.scratch for step in steps if step.scratch}:
        arena.release(arena.allocate(nbytes))
    if block is not None:
        arena.release(block)
    return SessionMemory(arena.peak, arena.held)


def _first_run(steps: Sequence[Step], arena: Arena, pattern: Pattern) -> None:
    chunks: dict[int, tuple[Chunk, tuple[int, int]]] = {}
    for step in steps:
        for made in step.allocates:
            if made.nbytes:
                chunks[made.value] = (arena.allocate(made.nbytes), pattern.allocate(made.nbytes))
        if step.scratch:
            arena.release(arena.allocate(step.scratch))
        for value in step.releases:
            if value in chunks:
                chunk, block = chunks.pop(value)
                arena.release(chunk)
                pattern.release(block)
