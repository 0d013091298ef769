"""Sessions that go by one name take the same memory: each is run through by itself as well."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.machines import load_machine
from hetpart.graph.from_onnx import import_onnx
from hetpart.partitioner.assembly.activations import Sessions
from hetpart.partitioner.formulate import formulate
from hetpart.partitioner.scores.cut import cut
from hetpart.partitioner.scores.liveness import crossing_values
from tests.runtime.models import model

LAYERS = 8
_LAYER = """
[up_{0}] u{0} = MatMul (x{0}, up) [gelu_{0}] g{0} = Gelu (u{0}) [square_{0}] s{0} = Mul (g{0}, g{0})
[down_{0}] d{0} = MatMul (s{0}, down) [add_{0}] r{0} = Add (d{0}, x{0})
[norm_{0}] x{1} = LayerNormalization (r{0}, b, b)
"""


def stack(widths: list[int]) -> onnx.ModelProto:
    """Layers of which those of one width are alike."""
    weights = "".join(f", float[64,{w}] up{w}, float[{w},64] down{w}" for w in sorted(set(widths)))
    body = "".join(
        _LAYER.format(i, i + 1).replace("up)", f"up{w})").replace("down)", f"down{w})") for i, w in enumerate(widths)
    )
    return model(f"g (float[32,64] x0, float[64] b{weights}) => (float[32,64] x{len(widths)}) {{ {body} }}")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("widths", [[256] * LAYERS, [256, 512] * (LAYERS // 2)], ids=["one width", "two widths"])
def test_what_sessions_of_one_name_take_is_what_each_takes(widths: list[int], seed: int) -> None:
    graph = import_onnx(stack(widths)).graph
    costs = annotate(graph, load_machine("l4+generic-2core"))
    formulation = formulate(graph, costs, {}, {})
    problem = formulation.problem
    borders = np.sort(np.random.default_rng(seed).choice(problem.ops, 6, replace=False))
    placement = (np.searchsorted(borders, np.arange(problem.ops), side="right") % 2).astype(np.int8)
    found = cut(problem, placement)
    crossing = crossing_values(problem, found)
    together = Sessions.of(graph, costs, formulation)
    peaks = together.in_use(found, crossing, np.ones(2, np.bool_))
    for partition in range(found.partitions):
        alone = Sessions.of(graph, costs, formulation)
        asked = np.arange(2) == found.devices[partition]
        assert alone.in_use(found, crossing, asked)[partition] == peaks[partition]
        ops = np.flatnonzero(found.partition == partition).tolist()
        assert alone.simulated(int(found.devices[partition]), ops, np.flatnonzero(crossing)) == peaks[partition]


def test_alike_layers_are_run_through_once_and_others_each() -> None:
    def sessions(widths: list[int]) -> int:
        graph = import_onnx(stack(widths)).graph
        costs = annotate(graph, load_machine("l4+generic-2core"))
        formulation = formulate(graph, costs, {}, {})
        placement = (np.arange(formulation.problem.ops) // 6 % 2).astype(np.int8)
        found = cut(formulation.problem, placement)
        known = Sessions.of(graph, costs, formulation)
        known.in_use(found, crossing_values(formulation.problem, found), np.ones(2, np.bool_))
        return len(known.known)

    # One on each device, and the first, which takes what the caller gives.
    assert sessions([256] * LAYERS) == 3
    assert sessions([64 + 8 * layer for layer in range(LAYERS)]) == LAYERS
