"""Sessions on a real CUDA device give what the CPU gives. Deselected where none answers."""

from __future__ import annotations

import subprocess
from itertools import combinations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from tests.runtime.models import assert_same, model, placed, plain

pytestmark = pytest.mark.cuda

MIXED = model("""mixed (float[64,32] x, int64[2] shape) => (float[N,M] z, int64[2] s, float[64,32] r, int64[2,K] at) {
    [relu] r = Relu(x)
    [reshape] q = Reshape(r, shape)
    [shapeof] s = Shape(q)
    [found] at = NonZero(r)
    [neg] z = Neg(q)
}""")
FEED = {"x": np.random.default_rng(0).standard_normal((64, 32), np.float32), "shape": np.array([32, 64])}
NAMES = [node.name for node in MIXED.graph.node]
PLACEMENTS = [chosen for size in (1, 2, 4, 5) for chosen in combinations(NAMES, size)]


def device_bytes() -> int:
    answer = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return int(answer.stdout) * 2**20


@pytest.mark.parametrize("accelerated", PLACEMENTS, ids="+".join)
def test_every_placement_gives_what_the_cpu_gives(accelerated: tuple[str, ...]) -> None:
    """Ops that move, compare or change signs: no rounding on either side."""
    expected = plain(MIXED).run(None, FEED)
    with placed(MIXED, accelerated, hardware="h100").session() as session:
        assert session.get_providers()[0] == "CUDAExecutionProvider"
        for _ in range(3):
            assert_same(session.run(None, FEED), expected)


def test_matmul_agrees_within_its_tolerance() -> None:
    proto = model(
        "g (float[128,256] x, float[256,64] w) => (float[128,64] z) { [mm] y = MatMul(x, w) [act] z = Relu(y) }"
    )
    rng = np.random.default_rng(1)
    feed = {"x": rng.standard_normal((128, 256), np.float32), "w": rng.standard_normal((256, 64), np.float32)}
    with placed(proto, ("mm",), hardware="h100").session() as session:
        (result,) = session.run(None, feed)
    np.testing.assert_allclose(result, np.maximum(feed["x"] @ feed["w"], 0), rtol=2e-2, atol=5e-2)  # TF32


def test_a_bundle_runs_and_its_report_counts_the_copies(tmp_path) -> None:
    bundle = placed(MIXED, ("relu", "reshape", "neg"), hardware="h100").save(tmp_path / "m.hetpart")
    with hetpart.Session(bundle) as session:
        assert_same(session.run(None, FEED), plain(MIXED).run(None, FEED))
        directions = {direction for direction, _ in session.last_copies()}
    assert directions == {"cpu->cuda:0", "cuda:0->cpu"}


def test_device_memory_stays_flat_and_is_given_back() -> None:
    proto = model("g (float[4000000] x) => (float[4000000] z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) }")
    x = np.ones(4_000_000, np.float32)
    partitioned = placed(proto, ("a", "c"), hardware="h100")

    def used_after(sessions: int, runs: int) -> int:
        for _ in range(sessions):
            with partitioned.session() as session:
                for _ in range(runs):
                    session.run(None, {"x": x})
        return device_bytes()

    first = used_after(1, 5)
    assert used_after(3, 20) - first < 64 * 2**20


def test_a_failing_partition_is_named_and_the_session_goes_on() -> None:
    proto = model("g (float[4] x, int64[2] shape) => (float[N,M] z) { [a] a = Neg(x) [r] z = Reshape(a, shape) }")
    x = np.arange(4, dtype=np.float32)
    with placed(proto, ("a", "r"), hardware="h100").session() as session:
        with pytest.raises(hetpart.ExecutionError, match="on cuda:0"):
            session.run(None, {"x": x, "shape": np.array([3, 3])})
        assert_same(session.run(None, {"x": x, "shape": np.array([2, 2])}), [-x.reshape(2, 2)])


BLOCKS = model("""blocks (float[64,256] x, float[64,256] y) => (float[64,256] z, float[64,256] r) {
    [a] a = Neg(x)
    [b] b = Abs(a)
    [c] c = Max(b, y)
    [d] d = Neg(c)
    [e] z = Max(d, a)
    [f] r = Min(c, x)
}""")
BLOCK_NAMES = [node.name for node in BLOCKS.graph.node]


@pytest.mark.parametrize("accelerated", list(combinations(BLOCK_NAMES, 3)), ids="+".join)
@pytest.mark.parametrize("overlap", [True, None])
def test_a_device_that_is_asked_ahead_gives_what_the_cpu_gives(
    accelerated: tuple[str, ...], overlap: bool | None
) -> None:
    uncut = plain(BLOCKS)
    with placed(BLOCKS, accelerated, hardware="h100").session(overlap=overlap) as session:
        assert session.ahead.memories, session.ahead.why_not
        options = [one.get_provider_options().get("CUDAExecutionProvider", {}) for one in session._sessions]
        streams = {option["user_compute_stream"] for option in options if option}
        assert streams == {str(session.ahead.streams["cuda:0"])}, "all partitions share one"
        for seed in range(20):
            rng = np.random.default_rng(seed)
            fed = {name: rng.standard_normal((64, 256), np.float32) for name in "xy"}
            assert_same(session.run(None, fed), uncut.run(None, fed))


def test_values_of_many_pinned_blocks_arrive_whole() -> None:
    """64 MiB: 16 blocks in, 16 out."""
    proto = model("g (float[16777216] x) => (float[16777216] z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Neg(b) }")
    x = np.random.default_rng(0).standard_normal(2**24, np.float32)
    with placed(proto, ("a", "c"), hardware="h100").session() as session:
        assert session.ahead.memories, session.ahead.why_not
        for _ in range(3):
            assert_same(session.run(None, {"x": x}), [-np.abs(x)])


def test_a_weight_of_two_partitions_is_on_the_device_once() -> None:
    """256 MiB, which both ends multiply with: a second copy would show. All sums are powers of two."""
    wide = np.ones((2**13, 2**13), np.float32)
    nodes = [("MatMul", "x w first"), ("Neg", "first between"), ("MatMul", "between w y")]
    graph = helper.make_graph(
        [helper.make_node(op, names.split()[:-1], names.split()[-1:], name=names.split()[-1]) for op, names in nodes],
        "both ends",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2**13])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2**13])],
        [numpy_helper.from_array(wide, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with placed(BLOCKS, ("a",), hardware="h100").session() as small:
        small.run(None, {name: np.ones((64, 256), np.float32) for name in "xy"})
        before = device_bytes()
        with placed(proto, ("first", "y"), hardware="h100").session() as session:
            first, _, last = session._weights
            assert first["w"] is last["w"]
            assert first["w"].device_name() == "cuda"
            assert device_bytes() - before < 1.5 * wide.nbytes
            (made,) = session.run(None, {"x": np.ones((1, 2**13), np.float32)})
    assert np.all(made == -(2.0**26))
