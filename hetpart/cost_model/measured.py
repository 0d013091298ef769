"""Seconds of every op from a device's calibration: by the kernels ONNX Runtime runs, not by the ops of the file."""

from __future__ import annotations

from hetpart.cost_model.fusion import Fusions
from hetpart.cost_model.kernel_calls import HEAVY, REORDER, KernelCall, kernel_call
from hetpart.cost_model.reuse import Kernel
from hetpart.cost_model.session_kernels import session_kernels
from hetpart.devices import Device
from hetpart.graph.ir import DTYPE_BITS, Graph, Op
from hetpart.rates import KernelRates

CACHED_BYTES = 2**24
"""Weights of a model that take less stay in the processor's caches from run to run."""
_ELEMENT_BYTES = DTYPE_BITS["float32"] // 8


def measured_seconds(graph: Graph, device: Device, fusions: Fusions) -> tuple[float | None, ...]:
    """Per op, its seconds on ``device`` when all of ``graph`` runs there in one session.

    A kernel's seconds are those of the op that it is named after; others that share it take none. What reorders
    channels for a kernel counts with it. ``None``: no table of the calibration speaks of the op.
    """
    rates = device.rates
    if rates is None:
        return (None,) * len(graph.ops)
    cold = sum(value.nbytes for value in graph.weights) > CACHED_BYTES
    # What the optimiser takes out costs nothing; kernels fill in what it leaves.
    left: list[float | None] = [0.0] * len(graph.ops)
    waiting = 0.0
    for kernel in session_kernels(graph, range(len(graph.ops)), fusions, device.provider, frozenset(graph.outputs)):
        if not kernel.ops:
            waiting += rates.tables[REORDER].at((max(1, kernel.makes[0].nbytes // _ELEMENT_BYTES),))
            continue
        members = [graph.ops[op] for op in kernel.ops]
        head = _head(members)
        seconds = _kernel_seconds(kernel, members, graph, rates, cold=cold)
        left[head.id] = None if seconds is None else seconds + waiting
        waiting = 0.0
    return tuple(left)


def _head(members: list[Op]) -> Op:
    """The op that the kernel is named after."""
    return next((op for op in members if op.op_type in HEAVY), members[-1])


def _kernel_seconds(kernel: Kernel, members: list[Op], graph: Graph, rates: KernelRates, *, cold: bool) -> float | None:
    if kernel.makes and all(made.view_of is not None for made in kernel.makes):
        return rates.visit_seconds
    call = kernel_call(members, graph)
    return None if call is None else call_seconds(call, rates, cold=cold)


def call_seconds(call: KernelCall, rates: KernelRates, *, cold: bool) -> float:
    """Seconds of ``call``; where weights are ``cold``, no faster than memory brings them."""
    table = rates.tables[call.family]
    streamed = call.weight_bytes / rates.cold_bandwidth if cold else 0.0
    return max(table.at(call.sizes), streamed) * call.calls
