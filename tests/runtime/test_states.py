# pyright: reportPrivateUsage=false
"""States stay on their device from run to run, and what comes out is what the uncut model makes of them by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hetpart
from benchmarks import zoo
from hetpart.errors import ExecutionError, InvalidFeedError, InvalidOptionError
from hetpart.plan.states import Port, find_states
from tests.runtime.models import assert_same, cut, model, plain

GPT2 = zoo.ZOO["gpt2-tiny"]
STEPS = 12


def _decoded(step: Callable[[dict[str, Any]], np.ndarray]) -> list[np.ndarray]:
    """Logits of every token, each the most likely after the one before it."""
    token, logits = 7, list[np.ndarray]()
    for position in range(STEPS):
        made = step({"input_ids": np.array([[token]]), "positions": np.array([[position]])})
        logits.append(made)
        token = int(made[0, -1].argmax())
    return logits


def _by_hand(path: Path) -> list[np.ndarray]:
    uncut = plain(onnx.load(path), optimize=True)
    shape = {"batch": 1, "seq": 1, "context": 32}
    caches: dict[str, Any] = {
        given.name: np.zeros([shape.get(str(size), size) for size in given.shape], np.float32)
        for given in uncut.get_inputs()
        if "cache" in given.name
    }

    def step(feeds: dict[str, Any]) -> np.ndarray:
        made = dict(zip((out.name for out in uncut.get_outputs()), uncut.run(None, feeds | caches), strict=True))
        caches.update({before: made[after] for before, after in GPT2.states})
        return np.asarray(made["logits"])

    return _decoded(step)


@pytest.mark.parametrize("placement", ["all-accelerator", "all-cpu", "random:1", "random:2", "random:5"])
@pytest.mark.parametrize("overlap", [False, True])
def test_gpt2_decodes_token_by_token(zoo_model: Callable[[str], Path], placement: str, overlap: bool) -> None:
    path = zoo_model("gpt2-tiny")
    partitioned = hetpart.partition(
        path, hardware="emulated", placement=placement, shape="batch=1,seq=1,context=32", state="auto"
    )
    assert partitioned.plan.states == dict(GPT2.states)
    with partitioned.session(emulate=True, overlap=overlap, threads=1) as session:
        ours = _decoded(lambda feeds: session.run(None, feeds)[0])
        copied = session.last_copies()
        cache_bytes = 4 * 32 * 16 * 4
        assert placement != "all-accelerator" or len(copied) == 3
        assert all(nbytes < cache_bytes or placement.startswith("random") for _, nbytes in copied)
        states = session.state()
        read = {(name, part.device) for part in partitioned.plan.partitions for name in part.inputs}
        assert set(states) == set(dict(GPT2.states))
        for name, returned in GPT2.states:
            device = states.devices[name]
            assert not [c for c in session._layout.plan.transfers if c.value == name]
            assert all((returned, c.target) in read for c in session._layout.plan.transfers if c.value == returned)
            assert device in ("cpu", "cuda:0")
    for mine, theirs in zip(ours, _by_hand(path), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


GROWING = model("""decoder (float[1,1,4] x, float[1,T,4] past_key, float[1,T,4] past_value)
    => (float[1,1,4] y, float[1,U,4] present_key, float[1,U,4] present_value)
<float[4,4] w = {1,2,3,4,5,6,7,8,1,2,3,4,-5,-6,-7,-8}> {
    [k] k = MatMul(x, w)
    [ck] present_key = Concat <axis = 1> (past_key, k)
    [cv] present_value = Concat <axis = 1> (past_value, x)
    [t] kt = Transpose <perm = [0, 2, 1]> (present_key)
    [s] s = MatMul(x, kt)
    [p] p = Softmax <axis = -1> (s)
    [y] y = MatMul(p, present_value)
}""")


@pytest.mark.parametrize("host", [("k",), ("k", "y"), ("p",), ("t", "s", "p", "y"), ("k", "ck", "cv", "t", "s", "p")])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_growing_cache_decodes_token_by_token(host: tuple[str, ...], overlap: bool) -> None:
    pins = [f"node:{node.name}={'cpu' if node.name in host else 'cuda'}" for node in GROWING.graph.node]
    partitioned = hetpart.partition(GROWING, hardware="emulated", shape="T=?", state="auto", pin=pins)
    uncut = plain(GROWING)
    key = value = np.zeros((1, 0, 4), np.float32)
    with hetpart.Session(partitioned.bundle(), emulate=True, optimize=False, overlap=overlap) as session:
        for step in range(9):
            x = np.random.default_rng(step).standard_normal((1, 1, 4), np.float32)
            y, key, value = uncut.run(None, {"x": x, "past_key": key, "past_value": value})
            assert_same(session.run(None, {"x": x}), [y])
            assert_same([session.state()["past_key"], session.state()["past_value"]], [key, value])
            assert "past_key" not in [copy.value for copy in session._layout.plan.transfers]
        assert session.state().nbytes == 2 * 9 * 4 * 4
        session.reset_state()
        assert session.state()["past_key"].shape == (1, 0, 4)


TABLE = model("""update (float[100,4] table, int64[3,1] rows, int64[3] looked, float[3,4] new)
    => (float[100,4] table_out, float[3,4] before)
{
    [look] before = Gather(table, looked)
    [both] changed = Add(before, new)
    [set] table_out = ScatterND(table, rows, changed)
}""")
ROWS = {"rows": np.array([[3], [50], [99]]), "looked": np.array([3, 50, 7])}


@pytest.mark.parametrize("accelerated", [(), ("look", "both", "set")])
def test_a_table_is_updated_where_it_lies(accelerated: tuple[str, ...]) -> None:
    uncut, table = plain(TABLE), np.zeros((100, 4), np.float32)
    with cut(TABLE, accelerated, state="auto") as session:
        assert session.state().nbytes == table.nbytes
        for step in range(5):
            feeds = ROWS | {"new": np.full((3, 4), step + 1, np.float32)}
            table, before = uncut.run(None, feeds | {"table": table})
            assert_same(session.run(None, feeds), [before])
            assert_same([session.state()["table"]], [table])


READ_LATE = model("""late (float[100,4] table, int64[3,1] rows, int64[3] looked, float[3,4] new)
    => (float[100,4] table_out, float[3,4] before)
{
    [set] table_out = ScatterND(table, rows, new)
    [look] before = Gather(table, looked)
}""")


@pytest.mark.parametrize("accelerated", [(), ("look", "set")])
def test_what_is_read_beside_its_update_has_two_blocks(accelerated: tuple[str, ...]) -> None:
    uncut, table = plain(READ_LATE), np.zeros((100, 4), np.float32)
    with cut(READ_LATE, accelerated, state={"table": "table_out"}) as session:
        assert session.state().nbytes == 2 * table.nbytes
        for step in range(5):
            feeds = ROWS | {"new": np.full((3, 4), step + 1, np.float32)}
            table, before = uncut.run(None, feeds | {"table": table})
            assert_same(session.run(None, feeds), [before])


SUM = model("""sum (float[3] x, float[3] total, int64[1] at) => (float[3] total_out, float[1] y)
{
    [add] total_out = Add(total, x)
    [neg] n = Neg(total_out)
    [pick] y = Gather(n, at)
}""")
ONES = {"x": np.ones(3, np.float32), "at": np.array([0])}


@pytest.fixture(params=[(), ("add",), ("neg", "pick"), ("add", "neg", "pick")], ids=str)
def session(request: pytest.FixtureRequest) -> Any:
    with cut(SUM, request.param, state={"total": "total_out"}) as opened:
        yield opened


def test_states_are_read_and_set(session: hetpart.Session) -> None:
    states = session.state()
    assert list(states) == ["total"]
    assert states["total"].tolist() == [0, 0, 0]
    session.run(None, ONES)
    session.run(None, ONES)
    assert states["total"].tolist() == [2, 2, 2]
    states["total"] = np.array([1, 2, 3], np.float32)
    assert session.run(["y", "total_out"], ONES)[1].tolist() == [2, 3, 4]
    session.run(None, ONES | {"total": np.array([7, 7, 7], np.float32)})
    assert states["total"].tolist() == [8, 8, 8]
    taken = states["total"]
    taken.fill(0)
    assert states["total"].tolist() == [8, 8, 8]
    session.reset_state()
    assert session.run(["total_out"], ONES)[0].tolist() == [1, 1, 1]


def test_states_come_out_of_every_call(session: hetpart.Session) -> None:
    ones = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in ONES.items()}
    (value,) = session.run_with_ort_values(["total_out"], ones)
    assert value.numpy().tolist() == [1, 1, 1]
    binding, place = session.io_binding(), np.zeros(3, np.float32)
    for name, array in ONES.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("total_out", "cpu", 0, np.float32, [3], place.ctypes.data)
    session.run_with_iobinding(binding)
    assert place.tolist() == [2, 2, 2]


def test_a_run_that_fails_leaves_states_as_they_were(session: hetpart.Session) -> None:
    session.run(None, ONES)
    for _ in range(3):
        with pytest.raises(ExecutionError):
            session.run(None, ONES | {"at": np.array([9])})
    assert session.state()["total"].tolist() == [1, 1, 1]
    assert session.run(["total_out"], ONES)[0].tolist() == [2, 2, 2]


TWO = model("""two (float[3] x, float[3] a, float[3] b, int64[1] at) => (float[3] a_out, float[3] b_out, float[1] y)
{
    [add] a_out = Add(a, x)
    [sub] b_out = Sub(b, x)
    [mul] m = Mul(a_out, b_out)
    [pick] y = Gather(m, at)
}""")
SEVENS = np.full(3, 7, np.float32)
ENDED = onnxruntime.RunOptions()
ENDED.terminate = True
FAILED: dict[str, tuple[dict[str, Any], Any]] = {
    "another state of a wrong shape": ({"b": np.zeros(4, np.float32)}, None),
    "an input of a wrong shape": ({"x": np.zeros(4, np.float32)}, None),
    "a kernel": ({"at": np.array([9])}, None),
    "ended": ({}, ENDED),
    "options that are none": ({}, "nonsense"),
}


@pytest.mark.parametrize("case", FAILED)
@pytest.mark.parametrize("accelerated", [(), ("add",), ("add", "sub"), ("add", "sub", "mul", "pick")], ids=str)
def test_a_state_that_is_fed_to_a_run_that_fails_is_what_it_was(accelerated: tuple[str, ...], case: str) -> None:
    wrong, options = FAILED[case]
    with cut(TWO, accelerated, state={"a": "a_out", "b": "b_out"}) as session:
        session.run(None, ONES)
        with pytest.raises((ExecutionError, InvalidFeedError, TypeError)):
            session.run(None, ONES | {"a": SEVENS} | wrong, options)
        assert {name: content.tolist() for name, content in session.state().items()} == {"a": [1] * 3, "b": [-1] * 3}
        assert session.run(["a_out"], ONES | {"a": SEVENS})[0].tolist() == [8] * 3


def test_a_growing_state_that_is_fed_to_a_run_that_fails_is_what_it_was() -> None:
    growing = model("""grow (float[2] x, float[n] past, int64[1] at) => (float[m] present, float[1] y)
    {
        [cat] present = Concat<axis = 0>(past, x)
        [pick] y = Gather(present, at)
    }""")
    partitioned = hetpart.partition(growing, hardware="emulated", shape="n=?", state={"past": "present"})
    with partitioned.session(emulate=True) as session:
        session.run(None, {"x": np.ones(2, np.float32), "at": np.array([0])})
        with pytest.raises(ExecutionError):
            session.run(None, {"x": np.ones(2, np.float32), "at": np.array([99]), "past": SEVENS})
        assert session.state()["past"].tolist() == [1, 1]


@pytest.mark.parametrize("fed", [{}, {"past": SEVENS}], ids=["kept", "fed"])
@pytest.mark.parametrize("output", ["present", "y"])
def test_a_binding_that_refuses_what_a_run_made_leaves_states_as_they_were(output: str, fed: dict[str, Any]) -> None:
    growing = model("""grow (float[2] x, float[n] past) => (float[m] present, float[k] y)
    {
        [cat] present = Concat<axis = 0>(past, x)
        [neg] y = Neg(present)
    }""")
    partitioned = hetpart.partition(growing, hardware="emulated", shape="n=?", state={"past": "present"})
    small = np.zeros(3, np.float32)
    with partitioned.session(emulate=True) as session:
        session.run(None, {"x": np.ones(2, np.float32)})
        binding = session.io_binding()
        for name, content in ({"x": np.ones(2, np.float32)} | fed).items():
            binding.bind_cpu_input(name, content)
        binding.bind_output(output, "cpu", 0, np.float32, [3], small.ctypes.data)
        with pytest.raises(InvalidFeedError, match=output):
            session.run_with_iobinding(binding)
        assert session.state()["past"].tolist() == [1, 1]
        assert session.run(["present"], {"x": np.zeros(2, np.float32)})[0].tolist() == [1, 1, 0, 0]


def test_a_run_asked_for_with_a_wrong_state_is_refused_at_once(session: hetpart.Session) -> None:
    with pytest.raises(InvalidFeedError, match="'total'"):
        session.run_async(None, ONES | {"total": np.zeros(4, np.float32)}, print)


def test_a_closed_session_has_no_states(session: hetpart.Session) -> None:
    states = session.state()
    session.close()
    for use in (
        lambda: states["total"],
        lambda: states.__setitem__("total", np.zeros(3, np.float32)),
        session.reset_state,
    ):
        with pytest.raises(ExecutionError, match="closed"):
            use()


@pytest.mark.parametrize("content", [np.zeros(4, np.float32), np.zeros(3), "x"])
def test_what_is_no_content_is_refused(session: hetpart.Session, content: Any) -> None:
    session.run(None, ONES)
    with pytest.raises(InvalidFeedError, match="'total'"):
        session.state()["total"] = content
    with pytest.raises(InvalidFeedError, match="'q'"):
        session.state()["q"] = np.zeros(3, np.float32)
    assert session.state()["total"].tolist() == [1, 1, 1]


REFUSED: dict[str, tuple[Any, str]] = {
    "no input": ({"q": "total_out"}, "'q'"),
    "no output": ({"total": "q"}, "'q'"),
    "another shape": ({"total": "y"}, "'y'"),
    "twice": ({"total": "total_out", "x": "total_out"}, "two states"),
    "a text": ("total", "auto"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_state_is_refused(case: str) -> None:
    asked, message = REFUSED[case]
    with pytest.raises(InvalidOptionError, match=message):
        cut(SUM, ("add",), state=asked)


@pytest.mark.parametrize("case", ["another shape", "twice"])
def test_no_plan_is_made_of_what_is_no_state(case: str) -> None:
    asked, message = REFUSED[case]
    with pytest.raises(InvalidOptionError, match=message):
        hetpart.partition(SUM, hardware="emulated", state=asked)


def test_a_state_that_the_plan_does_not_copy_to_its_reader_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="cpu, cuda:0") as refused:
        cut(READ_LATE, ("set",), state="auto")
    assert "--state table=table_out" in refused.value.hint


ROWS_SET = model("""rows (float[100,4] table, int64[1,1] at, float[1,4] x) => (float[100,4] table_out)
{
    [set] table_out = ScatterND(table, at, x)
}""")


def test_an_array_that_is_handed_over_is_updated_where_it_lies() -> None:
    bundle = hetpart.partition(ROWS_SET, placement="all-cpu", hardware="emulated", state="auto").bundle()
    session = hetpart.Session(bundle)
    states, table = session.state(), np.ones((100, 4), np.float32)
    assert states.lies_on_host("table")
    states.adopt("table", table)
    session.run(None, {"at": np.array([[7]]), "x": np.full((1, 4), 3, np.float32)})
    assert table[7].tolist() == [3] * 4
    assert table.sum() == 4 * 99 + 12
    assert np.shares_memory(states.view("table"), table)
    with pytest.raises(ExecutionError, match="'table' is in use"):
        states.adopt("table", table)


def test_an_array_of_another_form_is_not_taken() -> None:
    bundle = hetpart.partition(ROWS_SET, placement="all-cpu", hardware="emulated", state="auto").bundle()
    states = hetpart.Session(bundle).state()
    for wrong in (np.ones((99, 4), np.float32), np.ones((4, 100), np.float32).T):
        with pytest.raises(InvalidFeedError, match="'table' cannot be an array"):
            states.adopt("table", wrong)


def test_states_that_break_the_budget_are_refused() -> None:
    bundle = hetpart.partition(READ_LATE, hardware="emulated", placement="all-accelerator").bundle()
    host, accelerator = bundle.plan.devices
    tables = 2 * 100 * 4 * 4
    for budget in (accelerator.peak_bytes + tables, accelerator.peak_bytes - tables):
        devices = (host, replace(accelerator, budget_bytes=budget))
        limited = replace(bundle, plan=replace(bundle.plan, devices=devices))
        if budget > accelerator.peak_bytes:
            hetpart.Session(limited, emulate=True, state="auto").close()
        else:
            with pytest.raises(ExecutionError, match="over its budget"):
                hetpart.Session(limited, emulate=True, state="auto")


HF = [Port(f"past_key_values.{i}.{kind}", "float32", (1, 4, None, 8)) for i in range(2) for kind in ("key", "value")]
HF_NEW = [Port(f"present.{i}.{kind}", "float32", (1, 4, None, 8)) for i in range(2) for kind in ("key", "value")]
LISTS: dict[str, tuple[list[Port], list[Port], dict[str, str]]] = {
    "exports of Transformers": (
        [Port("input_ids", "int64", (1, 1)), *HF],
        [Port("logits", "float32", (1, 1, 9)), *HF_NEW],
        {old.name: new.name for old, new in zip(HF, HF_NEW, strict=True)},
    ),
    "of the zoo": (
        [Port("key_cache.0", "float32", (1, 2)), Port("value_cache.0", "float32", (1, 2))],
        [Port("key_cache_out.0", "float32", (1, 2)), Port("value_cache_out.0", "float32", (1, 2))],
        {"key_cache.0": "key_cache_out.0", "value_cache.0": "value_cache_out.0"},
    ),
    "Silero's": ([Port("state", "float32", (2, 1, 8))], [Port("stateN", "float32", (2, 1, 8))], {}),
    "another shape": ([Port("past", "float32", (2,))], [Port("present", "float32", (3,))], {}),
    "another type": ([Port("past", "float32", (2,))], [Port("present", "float16", (2,))], {}),
    **{
        f"{old}, which is none": ([Port(old, "float32", (2,))], [Port(new, "float32", (2,))], {})
        for old, new in [("input", "output"), ("input.1", "output.1"), ("in1", "out1"), ("image", "output_image")]
    },
    "beside a model's own": (
        [Port("input", "float32", (2,)), Port("states_in", "float32", (2,)), Port("h_in.0", "float32", (2,))],
        [Port("output", "float32", (2,)), Port("states_out", "float32", (2,)), Port("h_out.0", "float32", (2,))],
        {"states_in": "states_out", "h_in.0": "h_out.0"},
    ),
    "two that could be": (
        [Port("h_in", "float32", (2,)), Port("past_h", "float32", (2,))], [Port("h_out", "float32", (2,))], {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTS)
def test_states_are_found_by_name_and_shape(case: str) -> None:
    inputs, outputs, pairs = LISTS[case]
    assert find_states(inputs, outputs) == pairs
