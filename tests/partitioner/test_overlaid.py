"""What is alive while ops run takes no more than ONNX Runtime's sessions do, and plans use what that leaves free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array

import hetpart
from benchmarks import zoo
from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.machines import load_machine
from hetpart.graph.from_onnx import import_onnx
from hetpart.partitioner.assembly.activations import packing
from hetpart.partitioner.formulate import Formulation, formulate
from hetpart.partitioner.scores.cut import cut, dependencies
from hetpart.partitioner.scores.liveness import usage
from tests.runtime.models import model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hetpart.graph.ir import Graph
    from hetpart.partitioner.scores.scoring import Packing

ROWS, WIDE = 2048, 1024
VALUE, WEIGHTS = 4 * ROWS * WIDE, 6 * 4 * WIDE * WIDE


def products_and_softmaxes(layers: int = 6) -> onnx.ModelProto:
    """Each Softmax is over the outer axis, for which its kernel takes scratch, and may write over its input."""
    nodes = "".join(
        f"[mm{n}] m{n} = MatMul (r{n}, w{n}) [sm{n}] r{n + 1} = Softmax <axis = 0> (m{n})\n" for n in range(layers)
    )
    text = f"g (float[{ROWS},{WIDE}] r0) => (float[{ROWS},{WIDE}] r{layers}) {{ {nodes} }}"
    proto = model(text)
    weights = (from_array(np.full((WIDE, WIDE), n + 1, np.float32), f"w{n}") for n in range(layers))
    proto.graph.initializer.extend(weights)
    return proto


def formulated(graph: Graph, machine: str, budget: int) -> tuple[Formulation, Packing]:
    costs = annotate(graph, load_machine(machine))
    found = formulate(graph, costs, {}, {"cuda:0": budget})
    return found, packing(graph, costs, found)


def peaks_inside(path: Path, name: str, machine: str) -> tuple[int, int]:
    """Most bytes inside a session of all ops: by liveness, and as its session would take them."""
    graph = import_onnx(onnx.load(path, load_external_data=False), dict(zoo.ZOO[name].shape)).graph
    found, packed = formulated(graph, machine, 10**15)
    problem = found.problem
    placement = np.where(problem.legal()[1], 1, 0).astype(np.int8)
    parts = cut(problem, placement, dependencies(problem))
    alive = usage(problem, placement, parts).inside_partition.max()
    return int(alive), int(packed(placement, parts, None).inside_partition.max())


@pytest.mark.parametrize("machine", ["emulated+generic-2core", "l4+generic-2core"])
@pytest.mark.parametrize("name", ["bert-tiny", "whisper-tiny", "vit-tiny", "resnet50", "inception-v2"])
def test_what_shares_memory_is_counted_once(name: str, machine: str, zoo_model: Callable[[str], Path]) -> None:
    alive, taken = peaks_inside(zoo_model(name), name, machine)
    assert 0.8 * taken <= alive <= taken


def test_the_most_that_fits_is_found_where_values_are_written_over_inputs() -> None:
    proto = products_and_softmaxes()
    session = WEIGHTS + 5 * VALUE  # input, output, one value, and Softmax's scratch of two
    options: dict[str, Any] = {"hardware": "emulated+generic-2core", "budget": session}
    whole = hetpart.partition(proto, placement="all-accelerator", **options).plan
    found = hetpart.partition(proto, **options).plan
    assert found.devices[-1].peak_bytes <= session
    assert found.prediction.seconds <= whole.prediction.seconds
    assert found.certificate.lower_bound <= whole.certificate.cost
    assert {one.device for one in found.partitions} == {"cuda:0"}
