# pyright: reportPrivateUsage=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.errors import InvalidBundleError, InvalidOptionError
from hetpart.partitioned import PartitionedModel
from hetpart.plan.bundle import STREAMED_FILE
from hetpart.plan.io import load_plan
from hetpart.plan.model import ResidencyState
from hetpart.plan.streamed import streamed_weights
from hetpart.runtime.check import run
from hetpart.runtime.transport import HostMemory
from tests.runtime.models import plain

WIDTH, ROWS = 256, 128
WEIGHT = WIDTH * WIDTH * 4


def layers(count: int, *, turned: bool = False, dtype: type[np.generic] = np.float32) -> onnx.ModelProto:
    """Products and ReLUs one after another; ``turned``, where each weight is stored the other way round."""
    rng = np.random.default_rng(0)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    before = "x"
    for layer in range(count):
        weights.append(numpy_helper.from_array((rng.standard_normal((WIDTH, WIDTH)) / 16).astype(dtype), f"w{layer}"))
        weight = f"w{layer}"
        if turned:
            nodes.append(helper.make_node("Transpose", [weight], [f"t{layer}"], name=f"turn{layer}", perm=[1, 0]))
            weight = f"t{layer}"
        nodes.append(helper.make_node("MatMul", [before, weight], [f"m{layer}"], name=f"product{layer}"))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], name=f"relu{layer}"))
        before = f"r{layer}"
    given = helper.make_tensor_value_info("x", kind, [ROWS, WIDTH])
    returned = helper.make_tensor_value_info(before, kind, [ROWS, WIDTH])
    graph = helper.make_graph(nodes, "layers", [given], [returned], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fed(dtype: type[np.generic] = np.float32) -> dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(dtype)}


def planned(proto: onnx.ModelProto, **options: Any) -> PartitionedModel:
    chosen: dict[str, Any] = {"hardware": "emulated", "budget": 4 * WEIGHT, "stream": True} | options
    return hetpart.partition(proto, **chosen)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_streamed_layers_give_what_the_uncut_model_gives(tmp_path: Path, *, overlap: bool, turned: bool) -> None:
    proto = layers(8, turned=turned)
    model = planned(proto)
    assert len(streamed_weights(model.plan)) >= 4
    bundle = model.save(tmp_path / "layers.hetpart")
    with hetpart.Session(bundle, emulate=True, optimize=False, threads=1, overlap=overlap) as session:
        for _ in range(3):
            (ours,) = session.run(None, fed())
            np.testing.assert_allclose(ours, plain(proto).run(None, fed())[0], rtol=1e-4, atol=1e-5)
        assert session.overlaps == overlap
        copied = [direction for direction, _ in session.last_copies()]
    assert copied.count("cpu->cuda:0") == len(streamed_weights(model.plan)) + 1


class _Counted(HostMemory):
    """Memory that knows what was taken of it."""

    taken = 0

    def allocate(self, nbytes: int) -> Any:
        type(self).taken += nbytes
        return super().allocate(nbytes)


def test_what_a_run_takes_stays_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model = planned(layers(8))
    use = model.plan.device("cuda:0")
    held = sum(one.nbytes for one in model.plan.residencies if one.state is ResidencyState.RESIDENT)
    with model.session(emulate=True) as session:
        monkeypatch.setattr(_Counted, "taken", 0)
        monkeypatch.setitem(session._layout.memories, "cuda:0", _Counted())
        session.run(None, fed())
    assert _Counted.taken >= 2 * WEIGHT
    assert use.budget_bytes is not None
    assert held + use.activation_bytes + _Counted.taken <= use.peak_bytes <= use.budget_bytes


def test_the_next_weights_are_copied_while_a_partition_runs() -> None:
    plan = planned(layers(8)).plan
    assert plan.timeline is not None
    start = {(task.kind, task.index): task.start for task in plan.timeline.tasks}
    end = {(task.kind, task.index): task.end for task in plan.timeline.tasks}
    for index, copy in enumerate(plan.transfers):
        users = [partition.id for partition in plan.partitions if copy.value in partition.inputs]
        if copy.value in streamed_weights(plan) and users[0] > 1:
            assert copy.step < users[0]
            assert start["copy", index] < end["partition", users[0] - 1]


@pytest.mark.parametrize("seed", range(12))
def test_random_placements_that_stream_are_equal(seed: int) -> None:
    proto = layers(6, turned=seed % 2 == 1)
    model = planned(proto, placement=f"random:{seed}", budget=7 * WEIGHT)
    with model.session(emulate=True, threads=1, overlap=seed % 3 != 0) as session:
        (ours,) = session.run(None, fed())
    np.testing.assert_allclose(ours, plain(proto).run(None, fed())[0], rtol=1e-4, atol=1e-5)


def test_some_random_placements_stream() -> None:
    plans = [planned(layers(6), placement=f"random:{seed}", budget=7 * WEIGHT).plan for seed in range(8)]
    assert sum(bool(streamed_weights(plan)) for plan in plans) >= 4


def test_half_precision_weights_are_streamed() -> None:
    proto = layers(8, dtype=np.float16)
    model = planned(proto, budget=2 * WEIGHT)
    assert streamed_weights(model.plan)
    with model.session(emulate=True, threads=1) as session:
        (ours,) = session.run(None, fed(np.float16))
    np.testing.assert_allclose(ours, plain(proto).run(None, fed(np.float16))[0], rtol=2e-2, atol=2e-2)


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    proto = layers(6)
    path = tmp_path / "layers.onnx"
    onnx.save_model(proto, str(path), save_as_external_data=True, location="layers.data", size_threshold=0)
    for self_contained in (False, True):
        model = hetpart.partition(path, hardware="emulated", budget=4 * WEIGHT, stream=True)
        bundle = model.save(tmp_path / "layers.hetpart", self_contained=self_contained)
        assert streamed_weights(load_plan(bundle))
        with hetpart.Session(bundle, emulate=True, optimize=False, threads=1) as session:
            (ours,) = session.run(None, fed())
        np.testing.assert_allclose(ours, plain(layers(6)).run(None, fed())[0], rtol=1e-4, atol=1e-5)


def test_a_bundle_without_its_streamed_weights_is_refused(tmp_path: Path) -> None:
    bundle = planned(layers(8)).save(tmp_path / "layers.hetpart")
    (bundle / STREAMED_FILE).unlink()
    with pytest.raises(InvalidBundleError, match=r"lacks streamed\.onnx"):
        hetpart.Session(bundle, emulate=True)


def test_a_check_holds_streamed_plans_to_their_tolerance(tmp_path: Path) -> None:
    path = tmp_path / "layers.onnx"
    onnx.save(layers(8), path)
    bundle = hetpart.partition(path, hardware="emulated", budget=4 * WEIGHT).save(tmp_path / "layers.hetpart")
    found = run(bundle, emulate=True, random_seed=0, check=True, exact=True).check
    assert found is not None
    assert found.equal
    assert not found.exact


def test_half_of_the_streamed_weights_is_refused(tmp_path: Path) -> None:
    bundle = planned(layers(8)).save(tmp_path / "layers.hetpart")
    whole = (bundle / STREAMED_FILE).read_bytes()
    (bundle / STREAMED_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidBundleError, match=r"streamed\.onnx is no whole model"):
        hetpart.Session(bundle, emulate=True)


def test_a_streamed_weight_of_another_size_is_refused(tmp_path: Path) -> None:
    bundle = planned(layers(8)).save(tmp_path / "layers.hetpart")
    name = streamed_weights(load_plan(bundle))[0]
    small = onnx.load(bundle / STREAMED_FILE)
    (tensor,) = [one for one in small.graph.initializer if one.name == name]
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((2, 2), np.float32), name))
    for value in small.graph.output:
        if value.name == name:
            value.CopyFrom(helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]))
    onnx.save(small, bundle / STREAMED_FILE)
    with pytest.raises(InvalidBundleError, match=f"'{name}' has 16 bytes, planned were {WEIGHT:,}"):
        hetpart.Session(bundle, emulate=True)


def test_nothing_is_streamed_where_that_is_forbidden_or_all_fits() -> None:
    assert not streamed_weights(planned(layers(8), stream=False).plan)
    assert not streamed_weights(planned(layers(8), budget=64 * WEIGHT).plan)


def test_streaming_and_limits_on_the_cut_contradict_each_other() -> None:
    with pytest.raises(InvalidOptionError, match="the cut is limited"):
        planned(layers(4), max_partitions=2)
    assert not streamed_weights(planned(layers(8), max_partitions=3, stream=None).plan)


def test_reports_say_what_is_streamed() -> None:
    model = planned(layers(8))
    assert "streamed to cuda:0 in every run" in model.report(width=100)


def test_explain_says_what_is_streamed_and_what_the_plan_takes() -> None:
    found = hetpart.explain(layers(8), "product3", hardware="emulated", budget=4 * WEIGHT, stream=True).explanation
    assert "262 kB of weights streamed to it in every run" in found.reason
    here = next(side for side in found.sides if side.chosen)
    assert here.fits
    assert here.total_seconds == pytest.approx(found.seconds)
    assert "w3" in {copy.value for copy in here.copies}
