"""Values that kernels read or make in another layout than the one they lie in between sessions.

The CPU provider convolves with channels in blocks. What comes from outside a session is brought into blocks first, and
what leaves one is brought out of them: then it is there twice, in its buffer and inside the session.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.fusion import find_fusions
from hetpart.cost_model.session.kernels import Lane, session_kernels
from hetpart.cost_model.session.layout import RULES as BLOCKED
from hetpart.partitioner.problem import Reorders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hetpart.cost_model.session.reuse import Kernel
    from hetpart.graph.ir import Graph


def find_reorders(
    graph: Graph, groups: NDArray[np.int32], lanes: Sequence[Lane], position: Mapping[int, int]
) -> Reorders | None:
    """Of the sessions of every group alone, as all lanes run it; a kernel's layout does not depend on other groups.

    Args:
        graph: What is placed.
        groups: (N,) Ops of one group share a device.
        lanes: What runs sessions where memory is limited.
        position: Number in the problem of every value.
    """
    members: dict[int, list[int]] = {}
    for op, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(op)
    blocked = [ops for ops in members.values() if any(graph.ops[op].op_type in BLOCKED for op in ops)]
    if not blocked or not lanes:
        return None
    fusions, users = find_fusions(graph), _users(graph)
    found = list[set[tuple[int, int]]]()
    for lane in lanes:
        pairs = set[tuple[int, int]]()
        for ops in blocked:
            outside = _outside(graph, ops, users)
            pairs |= {*_pairs(graph, session_kernels(graph, ops, fusions, lane, outside), outside)}
        found.append(pairs)
    common = found[0].intersection(*found[1:])
    pairs = sorted((op, position[value]) for op, value in common if value in position)
    return Reorders(*np.array(pairs, np.int64).T) if pairs else None


def _users(graph: Graph) -> list[set[int]]:
    """Per value: the ops that read it, and −1 for the caller."""
    users = [set[int]() for _ in graph.values]
    for op in graph.ops:
        for value in op.uses:
            users[value].add(op.id)
    for value in graph.outputs:
        users[value].add(-1)
    return users


def _outside(graph: Graph, ops: Iterable[int], users: list[set[int]]) -> frozenset[int]:
    """Values that lie in buffers where ``ops`` alone share a session."""
    own = {*ops}
    made = {value for op in own for value in graph.ops[op].results}
    read = {value for value in chain.from_iterable(graph.ops[op].uses for op in own) if value not in made}
    return frozenset(read | {value for value in made if not users[value] or not users[value] <= own})


def _pairs(graph: Graph, kernels: Sequence[Kernel], outside: frozenset[int]) -> Iterator[tuple[int, int]]:
    """(op, value) of what is brought into blocks for the op, or out of them behind it."""
    for between in kernels:
        if between.ops or len(between.reads) != 1 or len(between.makes) != 1:
            continue
        source, made = between.reads[0], between.makes[0].value
        if source >= 0 > made and source in outside:
            readers = chain.from_iterable(kernel.ops for kernel in kernels if made in kernel.reads)
            yield from ((op, source) for op in readers if source in graph.ops[op].uses)
        maker = graph.values[made].producer if made >= 0 > source and made in outside else None
        if maker is not None:
            yield maker, made
