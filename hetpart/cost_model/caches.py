"""What a processor's caches keep of a model from run to run, and how fast it streams because of that."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import exp

from hetpart.devices import Device, Machine
from hetpart.graph.ir import Graph

LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})
"""Ops that read rows of a weight, not all of it."""
_FIXED_POINT = 60
"""Steps after which the equation of ``kept_share`` is solved well enough even near C."""


@cache
def kept_share(nbytes: float, cache_bytes: float) -> float:
    """The part of ``nbytes`` that a cache still holds when a run reads them again.

    Processors replace lines nearly at random: each of m that are fetched into C pushes a given one out with 1 / C,
    which leaves it with exp(−m / C); and what was not kept is what is fetched. All of it is kept up to C, half at
    1.39 C, a fifth at 2 C.
    """
    if nbytes <= cache_bytes:
        return 1.0
    ratio, kept = nbytes / cache_bytes, 0.0
    for _ in range(_FIXED_POINT):
        kept = exp(-(1 - kept) * ratio)
    return kept


def streamed_weights(graph: Graph) -> int:
    """Bytes of the weights that a run reads from end to end."""
    read = {v for op in graph.ops if op.op_type not in LOOKUPS for v in op.uses}
    return sum(value.nbytes for value in graph.weights if value.id in read)


def with_caches(machine: Machine, graph: Graph) -> Machine:
    """``machine`` with the memory rates that ``graph`` meets, where a processor is priced by its work.

    A run that touches no more than the last cache holds reads it all from there; what passes is counted as if no two
    values shared a place.
    """
    passed = streamed_weights(graph) + sum(graph.values[v].nbytes for op in graph.ops for v in op.results)
    return replace(machine, devices=tuple(_cached(device, passed) for device in machine.devices))


def _cached(device: Device, passed: int) -> Device:
    if device.rates is not None or not device.cache_bytes:
        return device
    kept = kept_share(passed, device.cache_bytes)
    memory = device.bandwidth * device.bandwidth_efficiency
    seconds = kept / max(memory, device.cache_bandwidth) + (1 - kept) / memory
    return replace(device, bandwidth=1 / seconds / device.bandwidth_efficiency)
