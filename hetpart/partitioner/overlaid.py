"""Values that lie in each other's memory: bytes that are alive twice, and there once.

ONNX Runtime writes a value over an input that nothing else reads, gives a view no memory, and never makes what lies
inside a fused kernel. Which values share memory depends on what else runs in their session. Of a session of all ops
most do: a cut puts values into buffers, which nothing is written over. So what an op's own values share there, what it
makes and what it reads last, is the most that they share anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.kernels import Lane, session_kernels
from hetpart.cost_model.session.reuse import buffer_owners

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from hetpart.cost_model.fusion import Fusions
    from hetpart.graph.ir import Graph


def overlaid_bytes(graph: Graph, lanes: Iterable[Lane], sizes: Mapping[int, int]) -> NDArray[np.int64]:
    """(N,) Of what each op makes and of what it reads last, bytes that lie in memory of other values at most.

    Args:
        graph: What is placed.
        lanes: What runs sessions; by the kernels of the one where most is shared.
        sizes: Bytes by value.
    """
    found, fusions = np.zeros(len(graph.ops), np.int64), find_fusions(graph)
    for lane in lanes:
        owners = _owners(graph, fusions, lane)
        alive, ends = _Alive(owners, sizes), _last_read(graph, owners.keys())
        shared = [alive.passed([v for v in op.results if v in owners], ends[op.id]) for op in graph.ops]
        found = np.maximum(found, np.array(shared, np.int64))
    return found


def _held(graph: Graph) -> frozenset[int]:
    """Values that can lie inside a session: what the caller gives or gets never does."""
    return frozenset(value for op in graph.ops for value in op.results).difference(graph.outputs)


def _last_read(graph: Graph, held: AbstractSet[int]) -> list[list[int]]:
    """By op, the values that are ``held`` until it has run."""
    last = {value: op.id for op in graph.ops for value in (*op.results, *op.uses) if value in held}
    found: list[list[int]] = [[] for _ in graph.ops]
    for value, op in last.items():
        found[op].append(value)
    return found


def _owners(graph: Graph, fusions: Fusions, lane: Lane) -> dict[int, int | None]:
    """The value that each lies in the memory of; ``None`` where it takes none of the session's.

    What lies inside a kernel counts as what that makes. What a kernel makes in blocks lies in the session even where
    the caller gets it: it is brought out of them first.
    """
    returned = frozenset(graph.outputs)
    kernels = session_kernels(graph, range(len(graph.ops)), fusions, lane, returned)
    memory = buffer_owners(kernels, returned | frozenset(graph.inputs))
    # In blocks of channels, or in another precision, a value has a number below zero.
    numbers = [(_plain(graph, made.value), made.value) for kernel in kernels for made in kernel.makes]
    in_blocks = {value: number for value, number in numbers if number < 0 and value in returned}
    made, held = dict(numbers) | in_blocks, _held(graph) | in_blocks.keys()
    of_kernel = {op: kernel.makes[0].value for kernel in kernels if kernel.makes for op in kernel.ops}

    def owner(value: int) -> int | None:
        stands = fusions.simple.value(value)
        maker = graph.values[stands].producer
        number = made.get(stands, None if maker is None else of_kernel.get(maker))
        found = None if number is None else _plain(graph, memory[number])
        return found if found in held else None

    return {value: owner(value) for value in held}


def _plain(graph: Graph, number: int) -> int:
    return number if number >= 0 else (-1 - number) % len(graph.values)


@dataclass(slots=True)
class _Alive:
    """What is alive, op by op."""

    owners: Mapping[int, int | None]
    sizes: Mapping[int, int]
    nbytes: Counter[int | None] = field(default_factory=Counter["int | None"])
    """Of all values in the memory of each."""

    def passed(self, made: Sequence[int], ended: Sequence[int]) -> int:
        """Bytes that the values an op makes and ends share while it runs."""
        own = Counter[int | None]()
        for value in {*made, *ended}:
            own[self.owners[value]] += self.sizes[value]
        for value in made:
            self.nbytes[self.owners[value]] += self.sizes[value]
        needed = ((owner, 0 if owner is None else self.sizes[owner]) for owner in own)
        shared = sum(min(own[owner], max(0, self.nbytes[owner] - there)) for owner, there in needed)
        for value in ended:
            self.nbytes[self.owners[value]] -= self.sizes[value]
        return shared
