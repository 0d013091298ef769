"""A Session is used like ``onnxruntime.InferenceSession``, whatever the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart.errors import ExecutionError, InvalidFeedError
from tests.runtime.models import assert_same, cut, model, placed, plain

ARITHMETIC = model("""arithmetic (float[2,3] x, float[2,3] y) => (float[2,3] z, float[2,3] w, float[2,3] v) {
    [add] z = Add(x, y)
    [mul] w = Mul(z, y)
    [neg] v = Neg(w)
}""")
PLACEMENTS = {"direct": (), "accelerated": ("add", "mul", "neg"), "cut": ("mul",), "cut twice": ("add", "neg")}
X = np.random.default_rng(0).standard_normal((2, 3), np.float32)
Y = np.random.default_rng(1).standard_normal((2, 3), np.float32)
FEED = {"x": X, "y": Y}


@pytest.fixture(scope="module", params=PLACEMENTS)
def session(request: pytest.FixtureRequest) -> Iterator[hetpart.Session]:
    with cut(ARITHMETIC, PLACEMENTS[request.param]) as opened:
        assert len(opened.plan.partitions) == {"direct": 1, "accelerated": 1}.get(request.param, 3)
        yield opened


@pytest.fixture(scope="module")
def uncut() -> onnxruntime.InferenceSession:
    return plain(ARITHMETIC)


@pytest.mark.parametrize("names", [None, [], ["z"], ["v", "z"], ("w", "z", "v"), ["w", "w"], ["v", "z", "v"]])
def test_outputs_come_as_asked(session: hetpart.Session, uncut: onnxruntime.InferenceSession, names: Any) -> None:
    assert_same(session.run(names, FEED), uncut.run(names, FEED))


def test_run_options_are_taken(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    options = onnxruntime.RunOptions()
    assert_same(session.run(None, FEED, options), uncut.run(None, FEED))
    options.terminate = True
    with pytest.raises(ExecutionError, match=r"[Tt]erminat"):
        session.run(None, FEED, run_options=options)


def test_borders_are_described_as_onnxruntime_does(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession
) -> None:
    for ours, theirs in ((session.get_inputs(), uncut.get_inputs()), (session.get_outputs(), uncut.get_outputs())):
        assert [(a.name, a.type, a.shape) for a in ours] == [(a.name, a.type, a.shape) for a in theirs]


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


FORMS = {
    "fortran": np.asfortranarray,
    "every other": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "backwards": lambda array: array[::-1].copy()[::-1],
    "read-only": _read_only,
    "big-endian": lambda array: array.astype(">f4"),
    "little-endian": lambda array: array.astype("<f4"),
    "a view into another": lambda array: np.pad(array, 1)[1:-1, 1:-1],
    "a list": lambda array: array.tolist(),
    "an OrtValue": onnxruntime.OrtValue.ortvalue_from_numpy,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_an_array_does_not_matter(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, form: str
) -> None:
    assert_same(session.run(None, {"x": FORMS[form](X), "y": Y}), uncut.run(None, FEED))


BAD_FEEDS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"x": X}, "lacks 'y'"),
    "nothing": ({}, "lacks 'x', 'y'"),
    "unknown": (FEED | {"q": X}, "unknown 'q'"),
    "both": ({"x": X, "q": Y}, "lacks 'y' and has unknown 'q'"),
    "shape": ({"x": X[:1], "y": Y}, r"'x' has shape \[1, 3\], planned was \[2, 3\]"),
    "rank": ({"x": X.ravel(), "y": Y}, r"'x' has shape \[6\]"),
    "dtype": ({"x": X, "y": Y.astype(np.float64)}, "'y' has dtype float64, planned was float32"),
    "foreign dtype": ({"x": X, "y": Y.astype(">f8")}, "'y' has dtype"),
    "none": ({"x": None, "y": Y}, "'x' has dtype object"),
    "text": ({"x": "x", "y": Y}, "'x' has dtype"),
}


@pytest.mark.parametrize("case", BAD_FEEDS)
def test_a_bad_feed_is_refused_and_the_session_goes_on(
    session: hetpart.Session, uncut: onnxruntime.InferenceSession, case: str
) -> None:
    feed, message = BAD_FEEDS[case]
    with pytest.raises(InvalidFeedError, match=message) as refused:
        session.run(None, feed)
    assert refused.value.hint
    assert_same(session.run(None, FEED), uncut.run(None, FEED))


@pytest.mark.parametrize("names", [["q"], ["z", "q"], "z", [""]])
def test_an_unknown_output_is_refused(session: hetpart.Session, names: Any) -> None:
    with pytest.raises(InvalidFeedError, match="output"):
        session.run(names, FEED)
    assert len(session.run(None, FEED)) == 3


def test_inputs_are_read_and_no_more(session: hetpart.Session) -> None:
    x, y = X.copy(), Y.copy()
    results = session.run(None, {"x": x, "y": y})
    assert x.tobytes() == X.tobytes()
    assert y.tobytes() == Y.tobytes()
    assert not any(np.shares_memory(result, given) for result in results for given in (x, y))


def test_results_belong_to_the_caller(session: hetpart.Session, uncut: onnxruntime.InferenceSession) -> None:
    kept = session.run(None, FEED)
    others = session.run(None, {"x": Y, "y": X})
    assert_same(kept, uncut.run(None, FEED))
    assert not any(np.shares_memory(mine, other) for mine in kept for other in others)
    for array in kept:
        array.fill(np.nan)
    assert_same(session.run(None, FEED), uncut.run(None, FEED))


def test_results_outlive_the_session(uncut: onnxruntime.InferenceSession) -> None:
    for accelerated in PLACEMENTS.values():
        with cut(ARITHMETIC, accelerated) as session:
            results = session.run(None, FEED)
        del session
        assert_same(results, uncut.run(None, FEED))


@pytest.mark.parametrize("accelerated", PLACEMENTS.values(), ids=PLACEMENTS)
def test_a_closed_session_says_so(accelerated: tuple[str, ...]) -> None:
    session = cut(ARITHMETIC, accelerated)
    with session as same:
        assert same is session
        assert len(session.run(None, FEED)) == 3
    session.close()
    with pytest.raises(ExecutionError, match="closed"):
        session.run(None, FEED)


FAILING = model("""failing (float[4] x, int64[1] at) => (float[1] y, float[4] z) {
    [neg] n = Neg(x)
    [gather] y = Gather(n, at)
    [abs] z = Abs(x)
}""")


@pytest.mark.parametrize("accelerated", [(), ("neg",), ("gather",), ("neg", "gather", "abs")])
def test_a_failing_op_is_named_and_the_session_goes_on(accelerated: tuple[str, ...]) -> None:
    x = np.arange(4, dtype=np.float32)
    with cut(FAILING, accelerated) as session:
        for _ in range(3):
            with pytest.raises(ExecutionError, match=r"partition .* on (cpu|cuda:0) failed.*gather"):
                session.run(None, {"x": x, "at": np.array([9])})
            assert session.run(["y"], {"x": x, "at": np.array([2])}) == [np.array([-2], np.float32)]


def test_providers_are_those_that_run() -> None:
    partitioned = placed(ARITHMETIC, ("mul",))
    with partitioned.session(emulate=True) as session:
        assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(hetpart.DeviceUnavailableError, match="emulated"):
        partitioned.session()


def test_a_plan_that_leaves_the_accelerator_out_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", _no_library)
    partitioned = hetpart.partition(ARITHMETIC, hardware="l4", placement="all-cpu")
    assert [use.device for use in partitioned.plan.devices] == ["cpu", "cuda:0"]
    with partitioned.session() as session:
        assert_same(session.run(None, FEED), plain(ARITHMETIC, optimize=True).run(None, FEED))


def _no_library(name: str, *_: Any, **__: Any) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


def test_without_a_gpu_an_accelerated_plan_names_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", _no_library)
    with pytest.raises(hetpart.DeviceUnavailableError, match="cuda:0") as refused:
        hetpart.partition(ARITHMETIC, hardware="l4", placement="all-accelerator").session()
    assert "--emulate" in refused.value.hint
