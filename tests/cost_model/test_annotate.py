"""Costs of a whole graph: seconds per device, reasons in words, fused prices."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

import hetpart
from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.machines import load_machine
from hetpart.devices import Machine
from hetpart.graph.ir import Graph
from tests.cost_model.arenas import profiled_nodes
from tests.cost_model.build import Builder, single
from tests.cost_model.float_models import Weights, feeds_of, model_of
from tests.cost_model.kernels_and_memory import RUNS


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load_machine("l4+epyc")


def _large_product() -> Graph:
    return single("MatMul", [((2048, 4096), "float32"), ((4096, 4096), "float32")], (2048, 4096))


def test_a_large_product_is_faster_on_the_accelerator_and_says_so(machine):
    (cost,) = annotate(_large_product(), machine).ops
    assert cost.known
    assert cost.seconds[1] < cost.seconds[0]
    assert cost.reason.startswith("compute-bound on cuda:0")
    assert f"{cost.seconds[0] / cost.seconds[1]:.1f}× faster there than on cpu" in cost.reason


def test_half_precision_runs_at_its_own_rate(machine):
    half = single("MatMul", [((2048, 4096), "float16"), ((4096, 4096), "float16")], (2048, 4096), dtype="float16")
    (full_cost,), (half_cost,) = annotate(_large_product(), machine).ops, annotate(half, machine).ops
    assert half_cost.seconds[1] < 0.6 * full_cost.seconds[1]


def test_a_small_op_is_launch_bound(machine):
    (cost,) = annotate(single("Relu", [((10,), "float32")], (10,)), machine).ops
    assert cost.reason.startswith("launch-bound on cpu")


def test_what_is_computed_element_by_element_does_not_say_that_it_has_much_arithmetic(machine):
    inputs = [((65536, 4096), "float32"), ((), "float32")]
    (cost,) = annotate(
        single("Pow", inputs, (65536, 4096)), replace(machine, devices=machine.devices[:1], links=())
    ).ops
    assert cost.reason.startswith("bound by its elements, one after another, on cpu")


def test_an_embedding_lookup_is_bound_by_scattered_rows(machine):
    inputs = [((10**8, 64), "float32"), ((65536, 26), "int64")]
    (cost,) = annotate(single("Gather", inputs, (65536, 26, 64)), machine).ops
    assert cost.reason.startswith("bound by scattered rows")
    table_seconds = 10**8 * 64 * 4 / machine.host.bandwidth
    assert cost.seconds[0] < table_seconds / 5


def test_an_op_without_a_kernel_cannot_run_there_and_says_why(machine):
    (cost,) = annotate(single("Unique", [((1000,), "float32")], (1000,)), machine).ops
    assert cost.seconds[0] < inf
    assert cost.seconds[1] == inf
    assert cost.missing == (None, "no CUDA kernel for Unique-11")
    assert cost.reason.endswith("no CUDA kernel for Unique-11")


def test_an_unknown_op_is_priced_high_and_named(machine):
    (known,) = annotate(single("Relu", [((10**6,), "float32")], (10**6,)), machine).ops
    (unknown,) = annotate(single("Snpe", [((10**6,), "float32")], (10**6,), domain="com.microsoft"), machine).ops
    assert not unknown.known
    assert unknown.reason.startswith("no cost formula for Snpe")
    assert unknown.work.flops > known.work.flops
    assert unknown.work.bytes_moved == known.work.bytes_moved


def test_an_op_no_provider_runs_says_so(machine):
    (cost,) = annotate(single("Secret", [((10,), "float32")], (10,), domain="acme"), machine).ops
    assert cost.seconds == (inf, inf)
    assert cost.reason == "no cost formula for Secret: no provider knows acme.Secret"


def test_views_cost_next_to_nothing(machine):
    (cost,) = annotate(single("Reshape", [((10**7,), "float32"), ((2,), "int64")], (10, 10**6)), machine).ops
    assert max(cost.seconds) < 1e-6
    assert cost.host_inputs == {1}


TAKEN_OUT: dict[str, list[onnx.NodeProto]] = {
    "Dropout": [make_node("Dropout", ["a"], ["b"])],
    "times one": [make_node("Mul", ["a", "one"], ["b"])],
    "plus zero": [make_node("Add", ["a", "zero"], ["b"])],
    "by one": [make_node("Div", ["a", "one"], ["b"])],
    "the same type": [make_node("Cast", ["a"], ["b"], to=onnx.TensorProto.FLOAT)],
    "the same twice": [make_node("Exp", ["x"], ["twin"], name="gone"), make_node("Add", ["a", "twin"], ["b"])],
}


@pytest.mark.parametrize("kind", TAKEN_OUT)
def test_what_onnx_runtime_takes_out_costs_nothing_anywhere(kind: str, tmp_path: Path) -> None:
    nodes = [make_node("Exp", ["x"], ["a"]), *TAKEN_OUT[kind], make_node("Relu", ["b"], ["y"])]
    weights: Weights = {"one": np.ones((), np.float32), "zero": np.zeros((), np.float32)}
    model = model_of(nodes, {"x": (64, 64)}, {"y": (64, 64)}, weights)
    costs = hetpart.annotate(model, hardware="l4+epyc")
    gone = [cost for cost in costs.ops if not any(cost.seconds)]
    (op,) = [costs.graph.ops[cost.op] for cost in gone]
    assert op.op_type == TAKEN_OUT[kind][0].op_type
    assert gone[0].reason.startswith("ONNX Runtime takes it out")
    profiled = profiled_nodes(model, feeds_of(model), tmp_path)
    assert len(profiled) == RUNS * (len(costs.ops) - 1)


def test_what_is_computed_once_for_two_stays_on_one_device() -> None:
    nodes = [make_node("Exp", ["x"], ["a"]), make_node("Exp", ["x"], ["twin"]), make_node("Add", ["a", "twin"], ["y"])]
    costs = hetpart.annotate(model_of(nodes, {"x": (64, 64)}, {"y": (64, 64)}, {}), hardware="l4+epyc")
    assert costs.groups[0] == costs.groups[1]


def test_host_operands_belong_to_cuda_alone():
    graph = single("Shape", [((4, 4), "float32")], (2,), dtype="int64")
    assert annotate(graph, load_machine("l4+epyc")).ops[0].host_outputs == {0}
    assert annotate(graph, load_machine("emulated+epyc")).ops[0].host_outputs == set()


def _linear(activated: bool) -> Graph:
    b = Builder()
    product = b.op("MatMul", [b.value((64, 512)), b.weight((512, 512))], (64, 512))
    total = b.op("Add", [product, b.weight((512,))], (64, 512))
    if activated:
        b.op("Relu", [total], (64, 512))
    return b.graph()


def test_a_fused_group_writes_and_launches_once(machine):
    costs = annotate(_linear(activated=False), machine)
    assert costs.groups == (0, 0)
    product, bias = (cost.seconds[1] for cost in costs.ops)
    host = machine.accelerators[0]
    rate = host.bandwidth * host.bandwidth_efficiency
    assert bias == pytest.approx(host.launch_seconds + (512 * 4 + 64 * 512 * 4) / rate)
    assert product == pytest.approx((64 * 512 + 512 * 512) * 4 / rate)


def test_what_only_the_cpu_fuses_is_priced_apart_on_cuda(machine):
    costs = annotate(_linear(activated=True), machine)
    assert costs.groups == (0, 0, 0)
    assert costs.ops[1].seconds[1] >= machine.accelerators[0].launch_seconds
    assert costs.ops[1].seconds[0] < machine.host.launch_seconds


def test_quantized_products_run_at_the_rate_of_integers_on_the_cpu(machine):
    b = Builder()
    x, w = b.value((256, 1024), "uint8"), b.weight((1024, 1024), "int8")
    scale, zero = b.weight(()), b.weight((), "uint8")
    inputs = [b.op("DequantizeLinear", [v, scale, zero], shape) for v, shape in ((x, (256, 1024)), (w, (1024, 1024)))]
    product = b.op("MatMul", list(inputs), (256, 1024))
    b.op("QuantizeLinear", [product, scale, zero], (256, 1024), dtype="uint8")
    costs = annotate(b.graph(), machine)
    assert costs.groups == (0, 0, 0, 0)
    flops = 2 * 256 * 1024 * 1024
    rate = machine.host.peak_flops["uint8"] * machine.host.efficiency
    assert costs.ops[2].seconds[0] == pytest.approx(flops / rate)


def test_copies_are_priced_by_the_link(machine):
    costs = annotate(_large_product(), machine)
    link = machine.link("cpu", "cuda:0")
    assert link.pageable_bandwidth is not None
    assert costs.copy_seconds(10**9, 0, 1) == link.latency + 10**9 / link.pageable_bandwidth
    assert costs.copy_seconds(10**9, 1, 1) == 0.0


def test_costs_are_in_the_order_of_the_ops(machine):
    costs = annotate(_linear(activated=True), machine)
    assert [cost.op for cost in costs.ops] == [0, 1, 2]
    assert costs.machine is machine
