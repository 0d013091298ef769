"""``hetpart run``: what is measured, counted, compared and written."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from rich.console import Console

import hetpart
from hetpart.errors import ExecutionError, InvalidBundleError, InvalidFeedError
from hetpart.plan.run import RunReport
from hetpart.report.run_text import run_parts
from hetpart.runtime import check, uncut
from hetpart.runtime.arrays import as_planned, read_inputs, write_arrays
from hetpart.runtime.compare import compare
from hetpart.runtime.dtypes import dtype_known_as
from hetpart.runtime.random_feeds import random_feeds
from tests.plan.stored import ACCELERATED, FEED, expected, write_model
from tests.runtime.models import model, placed

PINS = [f"node:n{i}={'cuda' if f'n{i}' in ACCELERATED else 'cpu'}" for i in range(6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "made")


@pytest.fixture
def bundle(path: Path, tmp_path: Path) -> Path:
    return hetpart.partition(path, hardware="emulated", pin=PINS).save(tmp_path / "made" / "m.hetpart")


def run(bundle: Path, **options: Any) -> RunReport:
    return check.run(bundle, emulate=True, **options)


def test_a_run_is_counted_compared_and_written(path: Path, bundle: Path, tmp_path: Path) -> None:
    told: list[str] = []
    report = run(bundle, feeds=FEED, repeat=3, check=True, output=tmp_path / "out", progress=told.append)
    assert (report.runs, report.partitions, report.emulated) == (3, 6, True)
    plan = hetpart.load_plan(bundle)
    assert report.copies == {"cpu->cuda:0": 3, "cuda:0->cpu": 3}
    assert sum(report.copied_bytes.values()) == sum(copy.nbytes for copy in plan.transfers)
    assert report.predicted_seconds == plan.prediction.seconds
    assert 0 < report.min_seconds <= report.median_seconds
    assert report.check is not None
    assert report.check.equal
    assert [(spec.name, spec.dtype, spec.shape) for spec in report.outputs] == [("v5", "float32", (2000,))]
    np.testing.assert_array_equal(np.load(report.files[0]), expected(path))
    opened = [f"loading the partitions: {number} of 6" for number in range(1, 7)]
    assert told == ["loading the partitions", *opened, "running", "running the uncut model"]


@pytest.mark.parametrize("overlap", [False, True])
def test_over_an_emulated_link_copies_are_predicted_at_its_rate(bundle: Path, overlap: bool) -> None:
    """Six copies of a chain, which nothing hides."""
    report, plan = run(bundle, feeds=FEED, emulate_link=1e6, overlap=overlap), hetpart.load_plan(bundle)
    copied = sum(copy.nbytes for copy in plan.transfers) / 1e6
    assert report.predicted_seconds == pytest.approx(copied + sum(part.seconds for part in plan.partitions))
    assert report.min_seconds >= copied


def test_exact_results_are_equal_to_the_bit(bundle: Path) -> None:
    verdict = run(bundle, random_seed=3, check=True, exact=True).check
    assert verdict is not None
    assert (verdict.equal, verdict.exact, verdict.largest_difference) == (True, True, 0)


def test_a_wrong_result_is_found(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_session = hetpart.Session.run
    wrong = lambda *args: [result + np.float32(1e-3) for result in run_session(*args)]  # noqa: E731
    monkeypatch.setattr(hetpart.Session, "run", wrong)
    for exact in (False, True):
        verdict = run(bundle, feeds=FEED, check=True, exact=exact).check
        assert verdict is not None
        assert not verdict.equal
        assert verdict.worst_output == "v5"
        assert verdict.largest_difference == pytest.approx(1e-3, rel=1e-2)


def test_the_uncut_model_is_found_where_it_went(path: Path, bundle: Path, tmp_path: Path) -> None:
    shutil.move(path.parent, tmp_path / "moved")
    verdict = run(tmp_path / "moved" / "m.hetpart", feeds=FEED, check=True).check
    assert verdict is not None
    assert verdict.equal
    assert bundle.parent == path.parent


def test_without_the_uncut_model_a_check_says_so(tmp_path: Path) -> None:
    proto = model("g (float[8] x) => (float[8] z) { [a] a = Neg(x) [b] z = Exp(a) }")
    onnx.save(proto, tmp_path / "m.onnx")
    for given in (tmp_path / "m.onnx", proto):
        bundle = hetpart.partition(given, hardware="emulated").save(tmp_path / "m.hetpart")
        (tmp_path / "m.onnx").unlink(missing_ok=True)
        assert run(bundle, random_seed=0).runs == 1
        with pytest.raises(InvalidBundleError, match="needs the uncut model") as refused:
            run(bundle, random_seed=0, check=True)
        assert refused.value.hint


def test_an_uncut_model_that_cannot_be_loaded_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model("g (float[8] x) => (float[8] z) { [a] a = Neg(x) [b] z = Exp(a) }")
    onnx.save(proto, tmp_path / "m.onnx")
    bundle = hetpart.partition(tmp_path / "m.onnx", hardware="emulated").save(tmp_path / "m.hetpart")
    monkeypatch.setattr(uncut, "verify_sources", lambda *_: None)
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ExecutionError, match="does not run in ONNX Runtime"):
        run(bundle, random_seed=0, check=True)


@pytest.mark.parametrize("self_contained", [False, True])
@pytest.mark.parametrize(("name", "kind"), [("m.onnx", "model file"), ("m.data", "weight file")])
def test_a_model_that_changed_is_not_compared_with(
    tmp_path: Path, name: str, kind: str, *, self_contained: bool
) -> None:
    proto = model("g (float[512] x) => (float[512] z) { [a] z = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(512, np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    planned = hetpart.partition(tmp_path / "m.onnx", hardware="emulated")
    bundle = planned.save(tmp_path / "m.hetpart", self_contained=self_contained)
    assert run(bundle, random_seed=0, check=True).check is not None
    content = bytearray((tmp_path / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidBundleError, match=rf"the {kind} '[^']+' changed since the plan was made") as refused:
        run(bundle, random_seed=0, check=True)
    if self_contained or kind == "model file":
        assert "without --check" in refused.value.hint
        assert run(bundle, random_seed=0).runs == 1


def test_types_that_numpy_lacks_are_checked_too(tmp_path: Path) -> None:
    proto = model("""g (bfloat16[8] x, float8e4m3fn[8] k) => (bfloat16[8] z, float[8] f, float8e5m2[8] e) {
        [a] a = Cast<to=1>(x) [b] b = Neg(a) [c] z = Cast<to=16>(b) [d] f = Cast<to=1>(k) [e] e = Cast<to=19>(f)
    }""")
    onnx.save(proto, tmp_path / "m.onnx")
    for accelerated in ((), ("b", "e"), ("a", "c", "d")):
        pins = [f"node:{n}={'cuda' if n in accelerated else 'cpu'}" for n in "abcde"]
        bundle = hetpart.partition(tmp_path / "m.onnx", hardware="emulated", pin=pins).save(tmp_path / "m.hetpart")
        report = run(bundle, random_seed=1, check=True, exact=True)
        assert report.check is not None
        assert report.check.equal


def test_arrays_of_types_that_numpy_lacks_come_back_from_files(tmp_path: Path) -> None:
    proto = model(
        "g (bfloat16[8] x) => (bfloat16[8] z) { [a] a = Cast<to=1>(x) [b] b = Neg(a) [c] z = Cast<to=16>(b) }"
    )
    bundle = placed(proto, ("b",)).save(tmp_path / "m.hetpart")
    first = run(bundle, random_seed=4, output=tmp_path / "first")
    second = run(bundle, feeds=read_inputs([f"x={first.files[0]}"]), output=tmp_path / "second")
    there, back = np.load(first.files[0]), np.load(second.files[0])
    assert there.dtype == np.float32
    assert (-there).tobytes() == back.tobytes()
    Console(width=500, file=(said := StringIO())).print(*run_parts(first))
    assert "z.npy, bfloat16 as float32" in said.getvalue()


def test_what_the_planned_type_does_not_hold_is_refused(tmp_path: Path) -> None:
    bundle = placed(model("g (bfloat16[2] x) => (float[2] z) { [a] z = Cast<to=1>(x) }"), ()).save(tmp_path / "m")
    assert run(bundle, feeds={"x": np.array([1.5, np.nan], np.float32)}).runs == 1
    with pytest.raises(InvalidFeedError, match="bfloat16"):
        run(bundle, feeds={"x": np.array([1.5, 0.1], np.float32)})


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"])
def test_every_number_of_a_type_that_numpy_lacks_is_written(tmp_path: Path, name: str) -> None:
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    bits = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    numbers = cast("NDArray[Any]", bits.view(dtype))
    numbers = numbers[~np.isnan(numbers.astype(np.float32))]
    [file] = write_arrays({"z": numbers}, tmp_path)
    there = np.load(file)
    assert there.dtype == np.float32
    assert as_planned(there, dtype_known_as(name)).tobytes() == numbers.tobytes()


@pytest.mark.parametrize(
    ("feeds", "seed", "said"),
    [({}, None, "no value for the input 'x'"), ({"y": 1}, 0, "has no input 'y'"), ({"x": np.zeros(3)}, 0, "dtype")],
)
def test_a_bad_feed_is_a_clear_error(bundle: Path, feeds: dict[str, Any], seed: int | None, said: str) -> None:
    with pytest.raises(InvalidFeedError, match=said) as refused:
        run(bundle, feeds=feeds, random_seed=seed)
    assert refused.value.hint


def test_random_inputs_are_seeded_and_within_the_table_they_index() -> None:
    proto = model("""g (int64[50] ids, int8[9] small, bool[9] mask, float[9] x, float16[9] h, uint8[9] image) =>
        (float[50,2] rows, float[9] s, float[9] t, bool[9] m) <float[7,2] table> {
        [a] rows = Gather(table, ids) [b] s = Cast<to=1>(small) [c] k = Cast<to=1>(h) [d] j = Cast<to=1>(image)
        [e] i = Add(k, j) [f] t = Add(i, x) [g] m = Not(mask)
    }""".replace(" <float[7,2] table>", ""))  # fmt: skip
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((7, 2), np.float32), "table"))
    plan = hetpart.partition(proto, hardware="emulated").plan
    feeds = random_feeds(plan.inputs, 5)
    assert all((feeds[name] == again).all() for name, again in random_feeds(plan.inputs, 5).items())
    assert any((feeds[name] != other).any() for name, other in random_feeds(plan.inputs, 6).items())
    assert set(feeds["ids"].tolist()) == set(range(7))
    assert set(feeds["small"].tolist()) | set(feeds["image"].tolist()) <= {0, 1}
    for spec in plan.inputs:
        assert (str(feeds[spec.name].dtype), feeds[spec.name].shape) == (spec.dtype, spec.shape)


def test_what_cannot_be_made_up_is_asked_for(tmp_path: Path) -> None:
    proto = model("g (string[2] x) => (string[2] z) { [a] a = Identity(x) [b] z = Identity(a) }")
    bundle = placed(proto, ("b",)).save(tmp_path / "m.hetpart")
    with pytest.raises(InvalidFeedError, match="cannot be made up") as refused:
        run(bundle, random_seed=0)
    assert "--input" in refused.value.hint
    report = run(bundle, feeds={"x": np.array(["a", "b"])}, output=tmp_path / "out")
    assert np.load(report.files[0]).tolist() == ["a", "b"]


def test_names_of_outputs_become_files_of_their_own(tmp_path: Path) -> None:
    names = ["a/b", "a b", "a_b", "a_b.2", "../../etc/passwd", ".hidden", "", "日本語", "x" * 300, "x" * 301, "a:b*c?"]
    results = {name: np.array([number]) for number, name in enumerate(names)}
    files = write_arrays(results, tmp_path / "out")
    assert len(set(files)) == len(names)
    assert {Path(file).parent for file in files} == {tmp_path / "out"}
    assert [int(np.load(file)[0]) for file in files] == list(range(len(names)))


def test_sequences_are_written_one_by_one_and_maps_refused(tmp_path: Path) -> None:
    files = write_arrays({"s": [np.zeros(1), np.ones(2)]}, tmp_path)
    assert [np.load(file).tolist() for file in files] == [[0], [1, 1]]
    for value in ({"a": 1}, None, [{"a": 1}]):
        with pytest.raises(ExecutionError, match="cannot hold"):
            write_arrays({"m": value}, tmp_path)


def close(ours: Any, uncut: Any, *, exact: bool = False) -> bool:
    return compare(["z"], [ours], [uncut], exact=exact).equal


@pytest.mark.parametrize(
    ("dtype", "scale", "near", "far"),
    [
        (np.float32, 1.0, 1e-5, 1e-3),
        (np.float32, 1e6, 10.0, 1e3),
        (np.float32, 1e-5, 1e-6, 1e-5),
        (np.float64, 1.0, 1e-12, 1e-6),
        (np.float16, 1.0, 1e-2, 0.1),
        (ml_dtypes.bfloat16, 1.0, 0.05, 0.5),
        (np.complex64, 1.0, 1e-5, 1e-3),
    ],
)
def test_tolerance_grows_with_the_result(dtype: Any, scale: float, near: float, far: float) -> None:
    uncut = (np.linspace(-1, 1, 9) * scale).astype(dtype)
    wide = uncut.astype(np.complex128 if uncut.dtype.kind == "c" else np.float64)
    assert close((wide + near).astype(dtype), uncut)
    assert not close((wide + far).astype(dtype), uncut)
    assert not close(np.zeros_like(uncut), uncut)


def test_integers_and_texts_are_equal_or_not() -> None:
    large = np.array([2**60])
    assert close(large, large.copy())
    assert not close(large + 1, large)
    assert not close(np.array([True]), np.array([False]))
    assert not close(np.array(["a"], object), np.array(["b"], object))
    assert not close(np.array([1]), np.array([1], np.int32))


def test_nans_and_infinities_stand_where_they_stood() -> None:
    uncut = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert close(uncut + np.float32(0), uncut)
    for position in range(4):
        other = uncut.copy()
        other[position] = 7 if position < 3 else np.nan
        assert not close(other, uncut)
    assert not close(-uncut, uncut)
    assert not close(np.array([0.0], np.float32), np.array([-0.0], np.float32), exact=True)
    assert close(np.array([0.0], np.float32), np.array([-0.0], np.float32))
