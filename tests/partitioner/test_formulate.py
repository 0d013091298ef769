"""The arrays that the solver sees say what the graph and its costs say."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.transfer import copy_seconds
from hetpart.errors import InvalidModelError
from hetpart.graph.from_onnx import import_onnx
from hetpart.partitioner.formulate import Formulation, formulate
from hetpart.partitioner.problem import NO_BUDGET, NO_OP
from tests.runtime.graphs import models
from tests.runtime.models import model


def formulated(proto: onnx.ModelProto, *, hardware: str = "l4+epyc", pins: dict[int, str] | None = None) -> Formulation:
    graph = import_onnx(proto).graph
    return formulate(graph, annotate(graph, load_machine(hardware)), pins or {}, {})


def users(formulation: Formulation, name: str) -> list[tuple[int, bool]]:
    """(op, read from host memory) for a value or weight."""
    problem = formulation.problem
    for edges, uses in ((formulation.values, problem.value_uses), (formulation.weights, problem.weight_uses)):
        for row, edge in enumerate(edges):
            if edge.name == name:
                start, end = uses.offsets[row : row + 2]
                return list(zip(uses.ops[start:end].tolist(), uses.on_host[start:end].tolist(), strict=True))
    raise KeyError(name)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), hardware=st.sampled_from(["l4+epyc", "emulated"]))
def test_every_edge_of_the_graph_is_there_once(proto: onnx.ModelProto, hardware: str) -> None:
    formulation = formulated(proto, hardware=hardware)
    problem, nodes = formulation.problem, list(proto.graph.node)
    assert problem.ops == len(nodes)
    weights = {tensor.name for tensor in proto.graph.initializer}
    made = {name: position for position, node in enumerate(nodes) for name in node.output}
    returned = {value.name for value in proto.graph.output}
    assert {value.name for value in formulation.values} == made.keys() | {value.name for value in proto.graph.input}
    for index, value in enumerate(formulation.values):
        assert problem.value_producer[index] == made.get(value.name, NO_OP)
        assert problem.value_returned[index] == (value.name in returned)
        assert [op for op, _ in users(formulation, value.name)] == [
            position for position, node in enumerate(nodes) if value.name in node.input
        ]
        assert problem.value_bytes[index] % 256 == 0
        assert 0 <= problem.value_bytes[index] - value.nbytes < 256
    assert {weight.name for weight in formulation.weights} == weights & {name for node in nodes for name in node.input}


HOST_OPERANDS = model("""g (float[4,6] x, int64[2] shape) => (float[N,M] z, int64[2] s) {
    [reshape] r = Reshape(x, shape) [shapeof] s = Shape(r) [again] z = Reshape(r, s)
}""")


def test_host_operands_are_those_of_the_cuda_kernels() -> None:
    formulation = formulated(HOST_OPERANDS)
    assert users(formulation, "shape") == [(0, True)]
    assert users(formulation, "s") == [(2, True)]
    assert users(formulation, "x") == [(0, False)]
    left = {
        v.name for v, on_host in zip(formulation.values, formulation.problem.value_left_on_host, strict=True) if on_host
    }
    assert left == {"s"}
    emulated = formulated(HOST_OPERANDS, hardware="emulated").problem
    assert not emulated.value_uses.on_host.any()
    assert not emulated.value_left_on_host.any()


def test_a_value_read_by_a_body_is_read_on_the_device() -> None:
    """Whatever the body does with it: inside, the operand of one kernel may be that of another."""
    formulation = formulated(
        model("""g (float[6] x, bool c, int64[1] shape) => (float[N] z) {
        [if] z = If (c) <then_branch = t () => (float[N] p) { p = Reshape(x, shape) },
                         else_branch = e () => (float[N] p) { p = Neg(x) }>
    }""")
    )
    assert users(formulation, "shape") == [(0, False)]
    assert users(formulation, "x") == [(0, False)]
    assert users(formulation, "c") == [(0, True)]


def test_copies_cost_what_the_links_say() -> None:
    machine = load_machine("l4+epyc")
    formulation = formulated(HOST_OPERANDS)
    for index, value in enumerate(formulation.values):
        for source in range(2):
            for target in range(2):
                assert formulation.problem.copy_seconds[source, target, index] == copy_seconds(
                    machine, value.nbytes, source, target
                )


FUSED = model(
    """g (float[4,4] x) => (float[4,4] z) <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4] b={1,2,3,4}> {
    [mm] y = MatMul(x, w) [bias] a = Add(y, b) [act] z = Relu(a)
}""".replace("(float[4,4] z) <", "(float[4,4] z)\n<")
)


def test_pins_close_the_other_devices_to_an_op() -> None:
    seconds = formulated(FUSED, pins={0: "cpu", 2: "cuda:0"}).problem.seconds
    assert np.isfinite(seconds).tolist() == [[True, True, False], [False, True, True]]


@pytest.mark.parametrize(
    ("pins", "groups"),
    [
        ({}, [0, 0, 0]),
        ({0: "cpu"}, [0, 0, 0]),
        ({0: "cpu", 2: "cpu"}, [0, 0, 0]),
        ({0: "cpu", 2: "cuda:0"}, [0, 1, 2]),
        ({1: "cuda:0", 2: "cpu"}, [0, 1, 2]),
    ],
)
def test_pins_outrank_fusion(pins: dict[int, str], groups: list[int]) -> None:
    assert formulated(FUSED, pins=pins).problem.groups.tolist() == groups


def test_an_op_that_runs_nowhere_is_named() -> None:
    proto = model("g (float[4] x) => (float[4] z) { [odd] z = Abacus(x) }")
    proto.graph.node[0].domain = "com.example"
    proto.opset_import.add(domain="com.example", version=1)
    with pytest.raises(InvalidModelError, match=r"no device can run Abacus \('odd'\)") as refused:
        hetpart.partition(proto, hardware="l4")
    assert refused.value.hint


def test_a_pin_to_where_an_op_has_no_kernel_is_named() -> None:
    proto = model("g (float[4] x) => (string[4] z) { [text] z = Cast<to=8>(x) }")
    with pytest.raises(InvalidModelError, match=r"Cast \('text'\).*string.*pinned to cuda:0") as refused:
        hetpart.partition(proto, hardware="l4", pin="op:Cast=cuda")
    assert "pin" in refused.value.hint


def test_budgets_and_sessions_are_the_machines() -> None:
    graph = import_onnx(HOST_OPERANDS).graph
    machine = load_machine("l4+epyc")
    problem = formulate(graph, annotate(graph, machine), {}, {"cuda:0": 12345}).problem
    assert problem.budgets.tolist() == [NO_BUDGET, 12345]
    assert problem.session_bytes.tolist() == [device.session_bytes for device in machine.devices]
    assert problem.session_seconds.tolist() == [device.session_seconds for device in machine.devices]
