# pyright: reportPrivateUsage=false
"""Every call of ``onnxruntime.InferenceSession`` gives what it gives there, however the model is cut."""

from __future__ import annotations

import gc
import json
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import enumerate as enumerate_threads
from threading import get_ident
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import OrtValue

import hetpart
from hetpart.errors import ExecutionError, InvalidFeedError, InvalidOptionError
from hetpart.runtime.binding import IOBinding
from hetpart.runtime.options import entry
from tests.runtime.models import assert_same, cut, model, placed, plain

ARITHMETIC = model("""arithmetic (float[2,3] x, float[2,3] y) => (float[2,3] v, float[2,3] z, float[2,3] w) {
    [add] z = Add(x, y)
    [mul] w = Mul(z, y)
    [neg] v = Neg(w)
}""")
PLACEMENTS = {"direct": (), "accelerated": ("add", "mul", "neg"), "cut": ("mul",), "cut twice": ("add", "neg")}
X = np.random.default_rng(0).standard_normal((2, 3), np.float32)
Y = np.random.default_rng(1).standard_normal((2, 3), np.float32)
FEED = {"x": X, "y": Y}
Either = hetpart.Session | onnxruntime.InferenceSession


@pytest.fixture(scope="module", params=PLACEMENTS)
def session(request: pytest.FixtureRequest) -> Iterator[hetpart.Session]:
    with cut(ARITHMETIC, PLACEMENTS[request.param]) as opened:
        yield opened


@pytest.fixture(scope="module")
def uncut() -> onnxruntime.InferenceSession:
    return plain(ARITHMETIC)


@pytest.mark.parametrize("names", [None, [], ["v"], ["w", "z"]])
def test_ort_values_go_in_and_come_out(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, names: Any
) -> None:
    fed = {name: OrtValue.ortvalue_from_numpy(array) for name, array in FEED.items()}
    ours, theirs = (one.run_with_ort_values(names, fed) for one in (session, uncut))
    assert_same([value.numpy() for value in ours], [value.numpy() for value in theirs])
    assert [value.data_type() for value in ours] == [value.data_type() for value in theirs]


LARGE = model("""large (float[64,64] x, float[0,3] e) => (float[64,64] y, float[64,64] x2, float[0,3] f) {
    [relu] m = Relu(x)
    [neg] y = Neg(m)
    [exp] f = Exp(e)
    [same] x2 = Identity(x)
}""")


def _bound_outputs(session: hetpart.Session, fed: dict[str, OrtValue]) -> IOBinding:
    binding = session.io_binding()
    for name, value in fed.items():
        binding.bind_ortvalue_input(name, value)
    for name in ("y", "x2", "f"):
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    return binding


VIEWS: dict[str, Callable[[hetpart.Session, dict[str, OrtValue]], list[Any]]] = {
    "array": lambda one, fed: [value.numpy() for value in one.run_with_ort_values(None, fed)],
    "tensor": lambda one, fed: [torch.from_dlpack(value) for value in one.run_with_ort_values(None, fed)],
    "bound": lambda one, fed: [value.numpy() for value in _bound_outputs(one, fed).get_outputs()],
    "vector": lambda one, fed: [value.numpy() for value in _bound_outputs(one, fed).get_outputs_as_ortvaluevector()],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("accelerated", [("neg",), ("relu", "neg", "exp"), ("relu",)], ids=str)
def test_a_view_of_a_result_outlives_the_value_that_held_it(accelerated: tuple[str, ...], view: str) -> None:
    x, e = np.random.default_rng(2).standard_normal((64, 64), np.float32), np.empty((0, 3), np.float32)
    fed = {"x": OrtValue.ortvalue_from_numpy(x), "e": OrtValue.ortvalue_from_numpy(e)}
    uncut = plain(LARGE).run(None, {"x": x, "e": e})
    with cut(LARGE, accelerated) as session:
        for _ in range(10):
            made = VIEWS[view](session, fed)
            others = [np.full((64, 64), 7, np.float32) for _ in range(5)]
            assert_same([np.asarray(one) for one in made], uncut)
            del others


def _later(one: Either, *arguments: Any) -> tuple[Any, ...]:
    told: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    one.run_async(*arguments, lambda *what: told.put((*what, get_ident())), "mine")
    *what, thread = told.get(timeout=30)
    assert thread != get_ident()
    return tuple(what)


def _threaded(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime answers later only where it has threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("names", [None, ["v", "z"]])
def test_a_run_is_told_of_later(session: hetpart.Session, names: Any) -> None:
    (ours, my_data, error), (theirs, their_data, no_error) = (
        _later(one, names, FEED) for one in (session, _threaded(ARITHMETIC))
    )
    assert_same(ours, theirs)
    assert (my_data, error) == (their_data, no_error) == ("mine", "")


FAILING = model("""failing (float[4] x, int64[1] at) => (float[1] y) {
    [neg] n = Neg(x)
    [gather] y = Gather(n, at)
}""")


@pytest.mark.parametrize("accelerated", [(), ("gather",)])
def test_what_fails_later_is_told(accelerated: tuple[str, ...]) -> None:
    feed = {"x": np.arange(4, dtype=np.float32), "at": np.array([9])}
    with cut(FAILING, accelerated) as session:
        (none, _, ours), (nothing, _, theirs) = (_later(one, None, feed) for one in (session, _threaded(FAILING)))
        assert none == nothing == []
        assert "gather" in ours
        assert "gather" in theirs
        assert _later(session, None, feed | {"at": np.array([1])})[0] == [np.array([-1], np.float32)]


def test_many_later_runs_are_all_told_of_before_a_session_closes(uncut: onnxruntime.InferenceSession) -> None:
    told: list[Any] = []
    feeds = [{"x": X + i, "y": Y} for i in range(30)]
    with cut(ARITHMETIC, ("mul",)) as session:
        for number, feed in enumerate(feeds):
            session.run_async(["v"], feed, lambda results, data, _: told.append((data, results)), number)
    assert [number for number, _ in told] == list(range(30))
    for (_, ours), feed in zip(told, feeds, strict=True):
        assert_same(ours, uncut.run(["v"], feed))


def _bound(one: Either, outputs: Callable[[Any], None]) -> list[np.ndarray]:
    binding = one.io_binding()
    binding.bind_cpu_input("x", X)
    y = OrtValue.ortvalue_from_numpy(Y)
    binding.bind_ortvalue_input("y", y)
    outputs(binding)
    one.run_with_iobinding(binding)
    one.run_with_iobinding(binding)
    assert [value.numpy().tolist() for value in binding.get_outputs()] == [
        array.tolist() for array in binding.copy_outputs_to_cpu()
    ]
    assert len(binding.get_outputs_as_ortvaluevector()) == len(binding.get_outputs())
    return binding.copy_outputs_to_cpu()


def _allocated(binding: Any) -> None:
    binding.bind_output("v")
    binding.bind_output("z", "cpu")


def test_outputs_of_a_binding_are_allocated(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    assert_same(_bound(session, _allocated), _bound(uncut, _allocated))


def test_outputs_of_a_binding_are_written_where_they_are_bound(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession
) -> None:
    places = []

    def outputs(binding: Any) -> None:
        z, w = np.zeros((2, 3), np.float32), OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
        places.append((z, w))
        binding.bind_output("z", "cpu", 0, np.float32, [2, 3], z.ctypes.data)
        binding.bind_ortvalue_output("w", w)

    assert_same(_bound(session, outputs), _bound(uncut, outputs))
    (z, w), (their_z, their_w) = places
    assert_same([z, w.numpy()], [their_z, their_w.numpy()])


def test_what_is_bound_can_be_bound_anew(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    made = []
    for one in (session, uncut):
        binding = one.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, [2, 3], X.ctypes.data)
        binding.bind_input("y", "cpu", 0, 1, [2, 3], Y.ctypes.data)
        binding.bind_output("v")
        one.run_with_iobinding(binding)
        binding.clear_binding_inputs()
        binding.clear_binding_outputs()
        binding.bind_cpu_input("x", Y)
        binding.bind_cpu_input("y", X)
        binding.bind_output("w")
        binding.synchronize_inputs()
        one.run_with_iobinding(binding)
        binding.synchronize_outputs()
        made.append(binding.copy_outputs_to_cpu())
    assert_same(*made)


def _binding(one: Either, *inputs: str, outputs: tuple[str, ...] = ()) -> Any:
    binding = one.io_binding()
    for name in inputs:
        binding.bind_cpu_input(name, FEED.get(name, X))
    for name in outputs:
        binding.bind_output(name)
    return binding


WIDE = X.astype(np.float64)
WRONG: dict[str, Callable[[Either], Any]] = {
    "a missing input": lambda one: one.run(None, {"x": X}),
    "an unknown input": lambda one: one.run(None, FEED | {"q": X}),
    "an unknown output": lambda one: one.run(["q"], FEED),
    "another shape": lambda one: one.run(None, FEED | {"x": X[:1]}),
    "another rank": lambda one: one.run(None, FEED | {"x": X[0]}),
    "another dtype": lambda one: one.run(None, FEED | {"x": WIDE}),
    "no array": lambda one: one.run(None, FEED | {"x": "x"}),
    "a missing OrtValue": lambda one: one.run_with_ort_values(None, {"x": OrtValue.ortvalue_from_numpy(X)}),
    "an OrtValue of another dtype": lambda one: one.run_with_ort_values(
        None, {"x": OrtValue.ortvalue_from_numpy(WIDE), "y": OrtValue.ortvalue_from_numpy(Y)}
    ),
    "a missing input, later": lambda one: one.run_async(None, {"x": X}, print, None),
    "an unbound input": lambda one: one.run_with_iobinding(_binding(one, "x", outputs=("v",))),
    "an unbound output": lambda one: one.run_with_iobinding(_binding(one, "x", "y")),
    "an unknown bound input": lambda one: _binding(one, "q"),
    "an unknown bound output": lambda one: one.run_with_iobinding(_binding(one, "x", "y", outputs=("q",))),
    "a binding of another session": lambda one: one.run_with_iobinding(plain(ARITHMETIC).io_binding()),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_onnxruntime_refuses_is_refused(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, case: str
) -> None:
    with pytest.raises(Exception, match=r"\w") as theirs:
        WRONG[case](uncut)
    with pytest.raises((InvalidFeedError, ExecutionError, theirs.type)) as ours:
        WRONG[case](session)
    if not {"bound", "unbound", "binding"} & set(case.split()):
        assert ours.type is InvalidFeedError
        assert issubclass(ours.type, ValueError)
    assert_same(session.run(None, FEED), uncut.run(None, FEED))


def _run_into(session: hetpart.Session, array: np.ndarray) -> None:
    binding = _binding(session, "x", "y")
    binding.bind_output("v", "cpu", 0, np.float32, list(array.shape), array.ctypes.data)
    session.run_with_iobinding(binding)


def test_a_buffer_of_another_size_is_refused(session: hetpart.Session) -> None:
    small = np.zeros(2, np.float32)
    with pytest.raises((InvalidFeedError, ExecutionError)):
        _run_into(session, small)
    assert small.tolist() == [0, 0]


TENSORS: dict[str, Callable[[np.ndarray], Any]] = {
    "torch": torch.from_numpy,
    "torch, transposed": lambda array: torch.from_numpy(np.ascontiguousarray(array.T)).t(),
    "an OrtValue": OrtValue.ortvalue_from_numpy,
    "torch, to be negated": lambda array: (
        torch.complex(torch.zeros(array.shape), -torch.from_numpy(array)).conj().imag
        if array.dtype == np.float32
        else torch.from_numpy(array)
    ),
    "a parameter": lambda array: torch.nn.Parameter(torch.from_numpy(array), requires_grad=False),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_of_other_libraries_are_taken(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, kind: str
) -> None:
    tensors = {name: TENSORS[kind](array) for name, array in FEED.items()}
    assert_same(session.run(None, tensors), uncut.run(None, FEED))
    assert_same(_later(session, None, tensors)[0], uncut.run(None, FEED))


@pytest.mark.parametrize("kind", [list, tuple, memoryview])
def test_numbers_that_are_no_array_are_taken(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, kind: Callable[[Any], Any]
) -> None:
    fed, expected = FEED | {"y": kind(Y)}, uncut.run(None, FEED)
    assert_same(session.run(None, fed), expected)
    boxed = fed | {"x": OrtValue.ortvalue_from_numpy(X)}
    assert_same([value.numpy() for value in session.run_with_ort_values(None, boxed)], expected)


@pytest.mark.parametrize("accelerated", [(), ("two",), ("three",)], ids=str)
@pytest.mark.parametrize("numbers", [[300, 1], [-129, 1], [2**40, 1], [2**63, 1], [2**70, 1], (300, 1)], ids=str)
def test_a_list_of_numbers_that_do_not_fit_is_refused(numbers: Any, accelerated: tuple[str, ...]) -> None:
    bytes_ = model("bytes (int8[2] x) => (int8[2] z, int8[2] y) { [two] z = Identity(x) [three] y = Neg(x) }")
    with cut(bytes_, accelerated) as session:
        with pytest.raises((InvalidFeedError, ExecutionError)):
            session.run(None, {"x": numbers})
        assert session.run(["y"], {"x": [127, -127]})[0].tolist() == [-127, 127]


def test_a_list_that_is_no_tensor_is_refused(session: hetpart.Session) -> None:
    with pytest.raises(InvalidFeedError, match="'x' is no tensor"):
        session.run(None, FEED | {"x": [[1.0], [1.0, 2.0]]})


def test_a_tensor_that_records_gradients_is_refused(session: hetpart.Session) -> None:
    with pytest.raises(InvalidFeedError, match=r"'x'.*gradient") as refused:
        session.run(None, FEED | {"x": torch.from_numpy(X).requires_grad_()})
    assert "detach" in refused.value.hint


HALVES = model("halves (bfloat16[3] x) => (bfloat16[6] z) { [two] z = Concat <axis = 0> (x, x) }")


@pytest.mark.parametrize("accelerated", [(), ("two",)])
@pytest.mark.parametrize("step", [1, 2])
def test_types_that_numpy_lacks_are_shared_too(step: int, accelerated: tuple[str, ...]) -> None:
    tensor = torch.tensor([1, 2.5, -3], dtype=torch.bfloat16)
    with cut(HALVES, accelerated) as session:
        (made,) = session.run(None, {"x": tensor.repeat_interleave(step)[::step]})
        assert made.dtype == ml_dtypes.bfloat16
        assert made.tolist() == [1, 2.5, -3, 1, 2.5, -3]
        (value,) = session.run_with_ort_values(None, {"x": OrtValue.from_dlpack(tensor)})
        assert torch.from_dlpack(value).equal(torch.cat([tensor, tensor]))
        with pytest.raises(InvalidFeedError, match="bfloat16"):
            session.run(None, {"x": tensor.float()})
        with pytest.raises(InvalidFeedError, match="bfloat16"):
            session.run_with_ort_values(None, {"x": OrtValue.ortvalue_from_numpy(X)})


TOLD = model("told (float[2] x) => (float[2] z) { [add] y = Add(x, x) [mul] z = Mul(y, x) }")
TOLD.producer_name, TOLD.producer_version, TOLD.domain, TOLD.model_version = "a house", "1.2", "org.example", 7
TOLD.doc_string, TOLD.graph.doc_string = "what it is", "what its graph is"
TOLD.metadata_props.add(key="classes", value="{0: 'cat'}")


@pytest.mark.parametrize("accelerated", [(), ("mul",)])
def test_a_model_tells_where_it_comes_from(accelerated: tuple[str, ...]) -> None:
    uncut = plain(TOLD)
    with cut(TOLD, accelerated) as session:
        ours, theirs = session.get_modelmeta(), uncut.get_modelmeta()
        for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.custom_metadata_map == theirs.custom_metadata_map == {"classes": "{0: 'cat'}"}
        assert session.get_provider_options() == uncut.get_provider_options()
        assert session.get_overridable_initializers() == uncut.get_overridable_initializers()
    assert session.get_modelmeta() == ours


NOT_HERE = {"run_with_ortvaluevector", "set_ep_dynamic_options", "get_tuning_results", "set_tuning_results"}


def test_every_call_of_onnxruntime_is_there_but_those_that_the_manual_names(session: hetpart.Session) -> None:
    calls = {name for name in dir(onnxruntime.InferenceSession) if not name.startswith("_")}
    assert {name for name in calls if not callable(getattr(session, name, None))} == NOT_HERE
    manual = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text()
    assert all(f"`{name}`" in manual for name in NOT_HERE)
    bindings = {name for name in dir(onnxruntime.IOBinding) if not name.startswith("_")}
    assert all(callable(getattr(IOBinding, name, None)) for name in bindings)


def _told(info: Any) -> list[str]:
    names = ("name", "allocator_type", "device_id", "device_mem_type", "device_vendor_id", "mem_type")
    found = [getattr(info, name) for name in names]
    return [str(told() if callable(told) else told) for told in found]


def test_borders_lie_where_onnxruntime_says(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    for call in ("get_input_memory_infos", "get_output_memory_infos"):
        ours, theirs = ([_told(info) for info in getattr(one, call)()] for one in (session, uncut))
        assert ours == theirs
    assert len(session.get_input_epdevices()) == len(uncut.get_input_epdevices())


def test_the_plan_cannot_be_moved(session: hetpart.Session) -> None:
    session.disable_fallback()
    for call in (session.enable_fallback, lambda: session.set_providers(["CPUExecutionProvider"])):
        with pytest.raises(InvalidOptionError) as refused:
            call()
        assert refused.value.hint
    session.release_captured_graph()


def test_a_value_of_a_session_is_taken(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    made = []
    for one in (session, uncut):
        x = one.create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
        x.update_inplace(X)
        made.append([v.numpy() for v in one.run_with_ort_values(None, {"x": x, "y": OrtValue.ortvalue_from_numpy(Y)})])
    assert_same(*made)


@pytest.mark.parametrize("accelerated", PLACEMENTS.values(), ids=PLACEMENTS)
def test_every_node_is_assigned_to_a_provider(accelerated: tuple[str, ...]) -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    with cut(ARITHMETIC, accelerated, sess_options=options) as session:
        found = [
            (part.ep_name, node.name)
            for part in session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]
    assert sorted(found) == [("CPUExecutionProvider", name) for name in ("add", "mul", "neg")]


@pytest.mark.parametrize("accelerated", [(), ("mul",)])
def test_profiles_of_all_partitions_end_in_one_file(accelerated: tuple[str, ...], tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    with cut(ARITHMETIC, accelerated, sess_options=options) as session:
        session.run(None, FEED)
        began = session.get_profiling_start_time_ns()
        path = Path(session.end_profiling())
    assert began > 0
    assert [path] == list(tmp_path.iterdir())
    nodes = [event for event in json.loads(path.read_text()) if event["name"].endswith("_kernel_time")]
    assert [event["name"] for event in sorted(nodes, key=lambda event: event["ts"])] == [
        "add_kernel_time", "mul_kernel_time", "neg_kernel_time"
    ]  # fmt: skip


def test_a_profile_without_a_folder_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime writes none, and tells the name that it would have."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "gone" / "profile")
    with pytest.raises(InvalidOptionError, match="gone") as refused:
        cut(ARITHMETIC, ("mul",), sess_options=options)
    assert refused.value.hint
    (tmp_path / "gone").mkdir()
    with cut(ARITHMETIC, ("mul",), sess_options=options) as session:
        shutil.rmtree(tmp_path / "gone")
        with pytest.raises(ExecutionError, match=r"the profiles.*gone"):
            session.end_profiling()


def test_without_a_profile_there_is_none(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    assert session.end_profiling() == uncut.end_profiling() == ""


FUSED = model("""fused (float[2,3] x, float[3,4] y, float[4] b) => (float[2,4] z) {
    [mm] m = MatMul(x, y)
    [add] z = Add(m, b)
}""")


@pytest.mark.parametrize(
    ("level", "kernels"),
    [
        (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, {"MatMul", "Add"}),
        (onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, {"Gemm"}),
    ],
)
def test_session_options_reach_every_partition(level: Any, kernels: set[str], tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads = level, 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.add_session_config_entry("session.disable_prepacking", "1")
    partitioned = hetpart.partition(FUSED, hardware="emulated", placement="all-accelerator")
    bundle = partitioned.bundle()
    with hetpart.Session(bundle, options, emulate=True) as session:
        assert session.get_session_options() is options
        assert session.threads == 3
        inner = session._sessions[0].get_session_options()
        assert inner.intra_op_num_threads == 3
        assert inner.get_session_config_entry("session.disable_prepacking") == "1"
    (written,) = tmp_path.iterdir()
    assert {node.op_type for node in onnx.load(written).graph.node} == kernels


def test_a_session_tells_of_the_options_it_gave_itself() -> None:
    with hetpart.Session(placed(ARITHMETIC, ()).bundle(), threads=3, optimize=False) as session:
        told = session.get_session_options()
    assert told.intra_op_num_threads == 3
    assert told.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL


@pytest.mark.parametrize(
    ("option", "told"), [({"mode": "nativ"}, "'native'"), ({"verify": "all"}, "'full'"), ({"threads": -1}, "from 0")]
)
def test_options_without_a_meaning_are_refused(option: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        hetpart.Session(placed(ARITHMETIC, ()).bundle(), **option)


def test_options_that_name_providers_are_refused() -> None:
    options = onnxruntime.SessionOptions()
    options.add_provider("CPUExecutionProvider", {})
    with pytest.raises(InvalidOptionError, match="providers"):
        cut(ARITHMETIC, (), sess_options=options)


def test_options_that_are_none_are_refused_in_words() -> None:
    with pytest.raises(InvalidOptionError, match="sess_options is a dict"):
        cut(ARITHMETIC, (), sess_options={"intra_op_num_threads": 1})


@pytest.mark.parametrize("names", [3, "v"])
def test_outputs_that_are_no_list_are_refused_in_words(session: hetpart.Session, names: Any) -> None:
    with pytest.raises(InvalidFeedError, match="no list"):
        session.run(names, FEED)


@pytest.mark.parametrize("option", [{"providers": ["CPUExecutionProvider"]}, {"provider_options": [{}]}])
def test_providers_as_onnxruntime_takes_them_are_refused_in_words(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=f"{next(iter(option))}=.* the plan says where") as refused:
        cut(ARITHMETIC, (), **option)
    assert "provider='cuda:0=NAME" in refused.value.hint


@pytest.mark.parametrize("accelerated", PLACEMENTS.values(), ids=PLACEMENTS)
def test_nothing_is_left_of_a_closed_session(accelerated: tuple[str, ...]) -> None:
    threads = {*enumerate_threads()}
    session = cut(ARITHMETIC, accelerated, overlap=True)
    _later(session, None, FEED)
    binding = session.io_binding()
    inner = [weakref.ref(one) for one in session._sessions]
    session.close()
    gc.collect()
    assert [reference() for reference in inner] == [None] * len(inner)
    assert {*enumerate_threads()} <= threads
    calls: list[Callable[[], Any]] = [
        lambda: session.run(None, FEED),
        lambda: session.run_async(None, FEED, print),
        lambda: session.run_with_ort_values(None, {n: OrtValue.ortvalue_from_numpy(a) for n, a in FEED.items()}),
        lambda: session.run_with_iobinding(binding),
        session.io_binding,
        session.end_profiling,
    ]
    for call in calls:
        with pytest.raises(ExecutionError, match="closed"):
            call()
    session.close()


@pytest.mark.parametrize("budgeted", [False, True])
def test_sessions_keep_no_buffers_for_later_where_memory_is_limited(budgeted: bool) -> None:
    options = onnxruntime.SessionOptions()
    partitioned = hetpart.partition(
        FUSED, hardware="emulated", placement="all-cpu", host_budget="1GB" if budgeted else None
    )
    with hetpart.Session(partitioned.bundle(), options, emulate=True) as session:
        inner = session._sessions[0].get_session_options()
        assert (inner.enable_mem_pattern, inner.enable_mem_reuse) == (not budgeted, not budgeted)
        assert entry(inner, "session.use_env_allocators") == ("1" if budgeted else None)


TEXTS = model("""texts (string[2] x) => (string[2] y, string[2] z)
{
    [one] y = Identity(x)
    [two] z = Identity(y)
}""")
TEXTS_FED = {
    "fixed": np.array(["ä", "bcd"]),
    "objects": np.array(["ä", "bcd"], dtype=object),
    "bytes": np.array(["ä".encode(), b"bcd"]),
    "raw": np.array([b"a", b"bcd"], dtype="V3"),
    "list": ["ä", "bcd"],
    "no text": np.array([1, 2]),
    "no UTF-8": np.array([b"a", b"\xff"]),
    "another shape": np.array(["a", "b", "c"]),
}


@pytest.mark.parametrize("kind", TEXTS_FED)
@pytest.mark.parametrize("accelerated", [(), ("two",)], ids=str)
def test_text_is_fed_as_to_onnxruntime(accelerated: tuple[str, ...], kind: str) -> None:
    fed = {"x": TEXTS_FED[kind]}
    with cut(TEXTS, accelerated) as session:
        try:
            theirs = plain(TEXTS).run(None, fed)
        except Exception:  # noqa: BLE001 - its kinds of error share no other class
            with pytest.raises(InvalidFeedError, match="'x'"):
                session.run(None, fed)
        else:
            assert [made.tolist() for made in session.run(None, fed)] == [made.tolist() for made in theirs]


@pytest.mark.parametrize("accelerated", [(), ("two",)], ids=str)
def test_outputs_may_be_asked_for_by_what_is_read_once(accelerated: tuple[str, ...]) -> None:
    fed = {"x": np.array(["a", "b"])}
    with cut(TEXTS, accelerated) as session:
        assert session.run((name for name in ["z"]), fed)[0].tolist() == ["a", "b"]
        assert len(session.run(iter(["z", "y", "z"]), fed)) == 3


def test_text_comes_out_as_no_ort_value() -> None:
    with cut(TEXTS, ("two",)) as session, pytest.raises(ExecutionError, match="no tensor of numbers") as refused:
        session.run_with_ort_values(["z"], {"x": np.array(["a", "b"])})
    assert "run()" in refused.value.hint


@pytest.mark.parametrize("given", [None, 3, "", ARITHMETIC, ARITHMETIC.SerializeToString(), placed(ARITHMETIC, ())])
def test_what_is_no_bundle_is_refused_in_words(given: Any) -> None:
    with pytest.raises(InvalidOptionError, match="a session opens a bundle"):
        hetpart.Session(given, emulate=True)
