"""Which weights may be streamed: those that the runtime can hand to a session as it hands it values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetpart.cost_model.memory import aligned
from hetpart.devices import ACCELERATOR, HOST
from hetpart.partitioner.problem import Streaming

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.cost_model.annotate import Costs
    from hetpart.graph.ir import Graph
    from hetpart.partitioner.formulate import Formulation

LEAST_BYTES = 2**16
"""Smaller weights are held: what a copy takes whatever its size is more than their bytes take."""
STREAMED_INTO = frozenset({"MatMul", "Gemm", "Gather", "Add", "Sub", "Mul", "Div"})
"""Standard ops whose kernels take a weight as any other value. Others want some of theirs to be known at load,
or, as convolutions on the CPU provider do, run otherwise where they are not."""


def with_streaming(formulation: Formulation, graph: Graph, costs: Costs, *, asked: bool) -> Formulation:
    """``formulation`` where weights may be streamed.

    Args:
        formulation: The problem.
        graph: What it places.
        costs: Its prices.
        asked: Whether streaming is tried also where the price of memory does not speak for it.
    """
    problem = formulation.problem
    if len(problem.devices) <= ACCELERATOR:
        return formulation
    sizes = [weight.nbytes for weight in formulation.weights]
    copies = np.array([costs.copy_seconds(size, HOST, ACCELERATOR) for size in sizes])
    seconds = np.where(_allowed(formulation, graph), copies, np.inf)
    streaming = Streaming(seconds, np.array([aligned(size) for size in sizes], np.int64), asked)
    return replace(formulation, problem=replace(problem, streaming=streaming))


def _allowed(formulation: Formulation, graph: Graph) -> NDArray[np.bool_]:
    wanted = np.array([w.is_static and w.nbytes >= LEAST_BYTES and w.dtype != "string" for w in formulation.weights])
    wanted = wanted.astype(np.bool_)
    uses = formulation.problem.weight_uses
    takes = np.array([op.op_type in STREAMED_INTO and op.domain in ("", "ai.onnx") for op in graph.ops], np.bool_)
    wanted[uses.rows[uses.on_host | ~takes[uses.ops]]] = False
    return wanted & ~_made_of(formulation, graph)


def _made_of(formulation: Formulation, graph: Graph) -> NDArray[np.bool_]:
    """Weights that others are made from: who holds one of those holds these too."""
    sources = {name for value in graph.values for name in value.sources}
    return np.array([weight.name in sources for weight in formulation.weights], np.bool_)
