"""Calls of kernels that move elements: how many, in what runs, from how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hetpart.cost_model.formulas.along_axes import is_strided
from hetpart.cost_model.formulas.gathering import index_tuples, slice_elements
from hetpart.cost_model.formulas.movement import repeated_run
from hetpart.cost_model.formulas.operands import Operands, element_bytes
from hetpart.graph.ir import Graph, Op

LONGEST_RUN = 512
"""Elements; longer runs are moved at the same rate."""
FEWEST_REPEATED = 32
"""Elements: of shorter ones, a Tile copies each by a call of its own."""
LONGEST_PIECE = 65_536
"""The same of a piece of a row, which is copied as a block."""
FEWEST_PIECES = 2
FEWEST_GATHERED = 256
"""Elements: of shorter slices, finding them takes longer than copying them."""
LINE_BYTES = 64
"""That memory is fetched by."""
MOST_TABLE_BYTES = 2**30
"""Beyond, the rows of a table lie no farther away."""
GATHER = "gather"
GATHER_SHARED = "gather_shared"
"""The family of lookups that several threads share; those of fewer bytes are one thread's."""
FAR_LOOKUPS = "gather_far"
"""The family of the same where all caches hold other data: neither rows nor what tells where their pages are."""
LEAST_SHARED = 52_500
"""Elements of four bytes that ONNX Runtime's lookups share among threads. Its cost model takes a second thread from
210,000 cycles on, and a lookup for a cycle a byte; with one of 44,928 elements, two threads took as long as one."""
WIDEST_SHARED = 256
"""Words of a row; longer ones are looked up at the same rate."""
COPY = "relu"
"""The family that takes what copying takes: each element is read and written once."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Calls of one kernel."""

    family: str
    """A table of a calibration."""
    sizes: tuple[float, ...]
    calls: float = 1.0


def transpose(o: Operands, family: str) -> KernelCall | None:
    """One by itself."""
    return _permuted(o, o.integers("perm"), family)


def transposes(members: Sequence[Op], graph: Graph) -> KernelCall:
    """Several, one behind the other, run as the one that does what all of them do."""
    axes = range(len(graph.values[members[0].inputs[0] or 0].shape or ()))
    for op in members:
        axes = [axes[axis] for axis in Operands.of(op, graph).integers("perm")]
    return _permuted(Operands.of(members[0], graph), axes, "transpose")


def _permuted(o: Operands, perm: Sequence[int], family: str) -> KernelCall:
    """Trailing axes that stay where they are move as runs; those of a single place may go anywhere.

    Where all others stay, it is a plain copy.
    """
    shape = o.shape(0)
    axes = [axis for axis in perm if axis < len(shape) and shape[axis] != 1]
    run = words(o)
    if axes == sorted(axes):
        return KernelCall(COPY, (max(1.0, o.numel(0) * run),))
    for axis, place in zip(reversed(axes), sorted(axes, reverse=True), strict=True):
        if axis != place:
            break
        run *= shape[axis]
    return KernelCall(family, (max(1.0, o.numel(0) * words(o)), max(1.0, min(run, LONGEST_RUN))))


def gather(o: Operands, family: str) -> KernelCall | None:
    """A copy for each index and each of the places before the axis."""
    shape = o.shape(0)
    axis = o.integer("axis", 0) % max(1, len(shape))
    width = max(1, prod(shape[axis + 1 :]))
    rows = max(1, o.output_numel() // width)
    # Indices address one block after the other. Where they are fewer than its cache lines, each finds one that none
    # fetched before, wherever the whole table lies.
    block = o.nbytes(0) // max(1, prod(shape[:axis]))
    block = o.nbytes(0) if o.numel(1) < block // LINE_BYTES else block
    elements, table = max(1.0, width * words(o)), max(1, min(MOST_TABLE_BYTES, block))
    if rows * elements >= LEAST_SHARED:
        return KernelCall(GATHER_SHARED, (rows * elements, min(elements, WIDEST_SHARED), table))
    return KernelCall(family, (rows, elements, table))


def words(o: Operands) -> float:
    """Of four bytes, in an element: what is only moved takes as long whatever it means."""
    value = o.input(0)
    return 1.0 if value is None else element_bytes(value) / 4


def joined(o: Operands, family: str) -> KernelCall | None:
    """A tensor's part of a row is copied at a time: of a concatenation's inputs, or of what a split makes."""
    pieces = [v for v in (o.inputs if o.op.op_type == "Concat" else o.outputs) if v is not None]
    whole = o.output_shape() if o.op.op_type == "Concat" else o.shape(0)
    axis = o.integer("axis", 0) % max(1, len(whole))
    copies = max(1, prod(whole[:axis]) * len(pieces))
    numel = max(1.0, prod(whole) * words(o))
    run = max(1.0, min(LONGEST_PIECE, numel / copies))
    return KernelCall(family, (numel, run, max(FEWEST_PIECES, len(pieces))))


def taken_apart(members: Sequence[Op], graph: Graph) -> KernelCall:
    """Lookups, or slices, that take all of a value along one axis run as one Split."""
    o = Operands.of(members[0], graph)
    whole = o.shape(0)
    if o.op.op_type == "Gather":
        axis = o.integer("axis", 0) % max(1, len(whole))
    else:
        axis = next((a for a, sizes in enumerate(zip(whole, o.output_shape(), strict=False)) if len({*sizes}) > 1), 0)
    copies, numel = max(1, prod(whole[:axis]) * len(members)), max(1.0, o.numel(0) * words(o))
    return KernelCall("concat", (numel, max(1.0, min(LONGEST_PIECE, numel / copies)), len(members)))


def copied(o: Operands, family: str) -> KernelCall | None:
    """Elements move in runs that lie together in what is read and in what is made.

    What goes one by one no family speaks of.
    """
    if is_strided(o) or (o.op.op_type == "Tile" and repeated_run(o) < FEWEST_REPEATED):
        return None
    if o.op.op_type == "GatherND" and slice_elements(o) < FEWEST_GATHERED:
        return KernelCall("index_tuples", (max(1, index_tuples(o)), slice_elements(o) * words(o)))
    run = words(o)
    for size, made in zip(reversed(o.shape(0)), reversed(o.output_shape()), strict=False):
        run *= max(1, min(size, made))
        if size != made:
            break
    run = max(1.0, min(run, LONGEST_RUN))
    return KernelCall(family, (max(1.0, o.output_numel() * words(o)), run, FEWEST_PIECES))


def found(o: Operands, family: str) -> KernelCall:
    """Every element is looked at, and where it lies written down where it is not zero."""
    return KernelCall(family, (max(1, o.numel(0)),))


def scatter(o: Operands, family: str) -> KernelCall | None:
    """All of the data is copied, then each update written."""
    return KernelCall(family, (max(1.0, o.output_numel() * words(o)), max(1, o.numel(1))))


def update(o: Operands, family: str) -> KernelCall | None:
    """Each update is written where it belongs."""
    return KernelCall(family, (max(1, o.numel(1)), max(1, o.numel(1))))
