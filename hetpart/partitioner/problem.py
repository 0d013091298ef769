"""The placement problem as plain arrays: all a solver sees.

Nothing here knows ONNX. Ops are numbered in a topological order; device 0 is the host. A value is a hyperedge from the
op that makes it to the ops that use it, a weight one over its users; each is copied, or held, once per device however
many ops use it there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.devices import HOST
from hetpart.partitioner.uses import Uses, use_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Placement = np.ndarray[tuple[int], np.dtype[np.int8]]
"""Device index of every op."""

NO_OP = -1
"""Producer of a value that no op makes: a graph input, which the caller gives."""
WHERE_USED = -1
"""Of a value that is kept on whichever device runs the ops that read or make it, and that no caller gives or gets."""
NO_BUDGET = -1


@dataclass(frozen=True, slots=True, eq=False)
class Streaming:
    """What it takes to copy weights to the accelerator in every run rather than to hold them there."""

    seconds: NDArray[np.float64]
    """(W,) Infinite where a weight may not be streamed."""
    nbytes: NDArray[np.int64]
    """(W,) Of the buffer that a streamed weight is copied to."""
    asked: bool = False
    """Whether it is tried also where a byte is worth less than copying it takes."""

    @property
    def allowed(self) -> NDArray[np.bool_]:
        return np.isfinite(self.seconds)

    def and_held(self) -> Streaming:
        """With one behind the others that may not be streamed."""
        return replace(self, seconds=np.append(self.seconds, np.inf), nbytes=np.append(self.nbytes, np.int64(0)))


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Graph inputs that stay from run to run on the device of the op that makes their new content."""

    keeper: NDArray[np.int32]
    """(V,) That op; ``NO_OP`` for all other values."""
    nbytes: NDArray[np.int64]
    """(V,) Of a copy on another device, 0 for all other values: where it stays a state is counted as weights are."""

    def among(self, values: NDArray[np.int64], number: NDArray[np.int64]) -> States:
        """Of some values, where op ``i`` is called ``number[i]``."""
        keeper = self.keeper[values]
        return States(np.where(keeper == NO_OP, NO_OP, number[keeper]).astype(np.int32), self.nbytes[values])

    def and_more(self, count: int) -> States:
        """With ``count`` values behind the others that are no states."""
        return States(
            np.concatenate([self.keeper, np.full(count, NO_OP, np.int32)]),
            np.concatenate([self.nbytes, np.zeros(count, np.int64)]),
        )


NO_STATES = States(np.zeros(0, np.int32), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Reorders:
    """Values that an op's kernel reads or makes in another layout, in memory of its own beside a buffer's."""

    ops: NDArray[np.int64]
    """(R,)"""
    values: NDArray[np.int64]
    """(R,) One of those that the op reads or makes."""

    def by_op(self, ops: int) -> list[frozenset[int]]:
        """Per op: its values."""
        found = [set[int]() for _ in range(ops)]
        numbers: list[int] = self.ops.tolist()
        for op, value in zip(numbers, self.values.tolist(), strict=True):
            found[op].add(value)
        return [frozenset(values) for values in found]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What other budgets have told of a problem."""

    starts: tuple[tuple[Placement, NDArray[np.bool_] | None], ...] = ()
    """Placements, which need not fit, each with the (W,) weights that it streams."""
    lower_bound: float = 0.0
    """No placement that fits and streams nothing costs less."""

    @property
    def holding(self) -> tuple[Placement, ...]:
        """Starts that stream nothing."""
        return tuple(placement for placement, streamed in self.starts if streamed is None)


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """Devices ``D``, ops ``N``, values ``V``, weights ``W``. Seconds are floats, bytes int64."""

    devices: tuple[str, ...]
    seconds: NDArray[np.float64]
    """(D, N). Infinite where a device has no kernel for the op or a pin forbids it."""
    groups: NDArray[np.int32]
    """(N,) Ops of one group share a device."""
    scratch_bytes: NDArray[np.int64]
    """(N,) What an op holds while it runs beside what it reads and makes; less than 0 where these share memory."""
    value_producer: NDArray[np.int32]
    """(V,) Op, or ``NO_OP``."""
    value_left_on_host: NDArray[np.bool_]
    """(V,) The producer leaves it in host memory even on an accelerator."""
    value_returned: NDArray[np.bool_]
    """(V,) The caller gets it, on the host unless ``value_kept`` says otherwise."""
    value_bytes: NDArray[np.int64]
    value_uses: Uses
    copy_seconds: NDArray[np.float64]
    """(D, D, V) Seconds to copy a value from the first device to the second; 0 on the diagonal."""
    weight_bytes: NDArray[np.int64]
    """(W,) As accelerators hold them, and the host where ``host_more`` does not say otherwise."""
    weight_uses: Uses
    budgets: NDArray[np.int64]
    """(D,) Bytes each device may hold at its peak; ``NO_BUDGET`` where there is no limit."""
    session_seconds: NDArray[np.float64]
    """(D,) Per partition."""
    session_bytes: NDArray[np.int64]
    """(D,) Per partition that is a session of ONNX Runtime."""
    streaming: Streaming | None = None
    """None where weights lie where they are used for as long as the plan is loaded."""
    streamed: NDArray[np.bool_] | None = None
    """(V,) Values that are streamed weights: the host holds them as such, and they come one partition early."""
    stands_for_weight: NDArray[np.bool_] | None = None
    """(V,) Values whose producers are no ops, but say where a weight is held."""
    value_kept: NDArray[np.int8] | None = None
    """(V,) Device on which the caller gives a graph input, holding it through the run, and on which it wants an output,
    or ``WHERE_USED``; None where all is handed over on the host."""
    states: States | None = None
    """None where there are none."""
    apart: NDArray[np.bool_] | None = None
    """(N,) Ops that ONNX Runtime does not run, whose partitions hold no others, and no session; None where there are
    none."""
    host_more: NDArray[np.int64] | None = None
    """Bytes that the host takes more for each of the first weights than an accelerator; None where it takes none."""
    reorders: Reorders | None = None
    """What is inside a session while an op runs also where it lies in a buffer; None where there is none."""

    @property
    def ops(self) -> int:
        return self.seconds.shape[1]

    @property
    def values(self) -> int:
        return len(self.value_producer)

    @property
    def in_sessions(self) -> NDArray[np.bool_]:
        """(N,) Ops that ONNX Runtime runs."""
        return np.ones(self.ops, np.bool_) if self.apart is None else ~self.apart

    @property
    def made(self) -> NDArray[np.bool_]:
        """(V,) Values that ops make."""
        made = self.value_producer != NO_OP
        return made if self.stands_for_weight is None else made & ~self.stands_for_weight

    @property
    def placed_by(self) -> NDArray[np.int32]:
        """(V,) The op on whose device a value lies before any copy; ``NO_OP`` where no placement changes that."""
        maker = np.where(self.value_left_on_host, np.int32(NO_OP), self.value_producer)
        return maker if self.states is None else np.where(self.states.keeper == NO_OP, maker, self.states.keeper)

    @property
    def copied_bytes(self) -> NDArray[np.int64]:
        """(V,) Bytes of each value on a device that it was copied to."""
        return self.value_bytes if self.states is None else self.value_bytes + self.states.nbytes

    @property
    def kept(self) -> NDArray[np.int8]:
        """(V,) Device of every value that is the caller's; of others it says nothing."""
        return np.zeros(self.values, np.int8) if self.value_kept is None else self.value_kept

    @property
    def given_there(self) -> NDArray[np.bool_]:
        """(V,) Graph inputs that the caller holds on an accelerator."""
        return (self.kept > 0) & (self.value_producer == NO_OP)

    @property
    def given_bytes(self) -> int:
        """Of those: they lie there through every run."""
        return 0 if self.value_kept is None else int(self.value_bytes[self.given_there].sum())

    @property
    def wanted_there(self) -> NDArray[np.bool_]:
        """(V,) Outputs that the caller wants on an accelerator."""
        return (self.kept > 0) & self.value_returned

    @property
    def wanted_on_host(self) -> NDArray[np.bool_]:
        return (self.kept == 0) & self.value_returned

    @property
    def reordered(self) -> list[frozenset[int]]:
        """Per op: values that are inside its session while it runs wherever else they lie."""
        return [frozenset()] * self.ops if self.reorders is None else self.reorders.by_op(self.ops)

    @property
    def beside_bytes(self) -> NDArray[np.int64]:
        """(N,) Scratch of each op, and what is ``reordered`` for it: all that is inside wherever its values lie."""
        found = self.scratch_bytes.copy()
        if self.reorders is not None:
            np.add.at(found, self.reorders.ops, self.value_bytes[self.reorders.values])
        return found

    def legal(self) -> NDArray[np.bool_]:
        """(D, N) Where each op may run, its whole group considered."""
        allowed = np.isfinite(self.seconds)
        merged = np.ones_like(allowed)
        for device in range(len(self.devices)):
            np.logical_and.at(merged[device], self.groups, allowed[device])
        return merged[:, self.groups]

    def home(self, placement: Placement) -> NDArray[np.int8]:
        """(V,) Device each value is made on: the caller's for graph inputs, the host for outputs left there."""
        home, by = np.maximum(self.kept, np.int8(0)), self.placed_by
        home[self.value_producer != NO_OP] = 0
        home[by != NO_OP] = placement[by[by != NO_OP]]
        return home

    def needed(self, placement: Placement) -> NDArray[np.bool_]:
        """(D, V) Devices on which some op, or the caller, reads each value."""
        needed = np.zeros((len(self.devices), self.values), np.bool_)
        needed[use_devices(self.value_uses, placement), self.value_uses.rows] = True
        for device in range(len(self.devices) if self.value_kept is not None else 1):
            needed[device, self.value_returned & (self.kept == device)] = True
        return needed

    def held(self, placement: Placement) -> NDArray[np.bool_]:
        """(D, W) Devices that hold each weight."""
        held = np.zeros((len(self.devices), len(self.weight_bytes)), np.bool_)
        held[use_devices(self.weight_uses, placement), self.weight_uses.rows] = True
        return held

    def held_bytes(self, placement: Placement) -> NDArray[np.int64]:
        """(D,) Bytes of the weights that each device holds."""
        held = self.held(placement)
        found = held @ self.weight_bytes
        if self.host_more is not None:
            found[HOST] += held[HOST, : len(self.host_more)] @ self.host_more
        return found

    def and_held(self, nbytes: int, ops: Sequence[int]) -> PlacementProblem:
        """The same with bytes behind the weights that a device holds as one where it runs any of ``ops``."""
        uses, more = self.weight_uses, Uses.from_rows([[(op, False) for op in ops]])
        return replace(
            self,
            weight_bytes=np.append(self.weight_bytes, np.int64(nbytes)),
            weight_uses=Uses(
                np.append(uses.offsets, uses.offsets[-1] + len(ops)),
                np.concatenate([uses.ops, more.ops]),
                np.concatenate([uses.on_host, more.on_host]),
            ),
            streaming=None if self.streaming is None else self.streaming.and_held(),
        )

    def copies(self, placement: Placement) -> NDArray[np.bool_]:
        """(D, V) Values copied to each device."""
        copies = self.needed(placement)
        copies[self.home(placement), np.arange(self.values)] = False
        return copies

    def cost(self, placement: Placement) -> float:
        """Modelled serial seconds: every op on its device plus every copy. Session overheads are left out."""
        compute = self.seconds[placement, np.arange(self.ops)].sum()
        target, value = np.nonzero(self.copies(placement))
        return float(compute + self.copy_seconds[self.home(placement)[value], target, value].sum())
