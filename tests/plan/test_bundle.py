"""Bundles are written whole, found again wherever they and their weights went, and nothing else is ever touched."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetpart
from hetpart.cost_model.calibrated import FOLDER_VARIABLE
from hetpart.errors import HetpartError, InvalidBundleError
from hetpart.partitioned import PartitionedModel
from hetpart.plan import bundle as bundles
from hetpart.plan import swap
from hetpart.plan.bundle import open_bundle
from hetpart.plan.weights import GATHERED_FILE, external_tensors, reference_of
from tests.plan.stored import ACCELERATED, EXTERNAL, FEED, expected, write_model

ROOT = Path(__file__).parents[2]
BARE = {"PYTHONPATH": str(ROOT), "PATH": "", FOLDER_VARIABLE: os.environ[FOLDER_VARIABLE]}
PINS = [f"node:n{i}={'cuda' if f'n{i}' in ACCELERATED else 'cpu'}" for i in range(6)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "where it was made")


def partitioned(model: Any, **options: Any) -> PartitionedModel:
    return hetpart.partition(model, hardware="emulated", pin=PINS, **options)


def assert_runs(bundle: Path, result: np.ndarray, *, verify: str = "sampled") -> None:
    with hetpart.Session(bundle, emulate=True, verify=verify) as session:
        assert len(session.plan.partitions) == 6
        np.testing.assert_array_equal(session.run(None, FEED)[0], result)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_weights_stay_where_they_are(model: Path, tmp_path: Path) -> None:
    bundle = partitioned(model).save(tmp_path / "m.hetpart")
    assert_runs(bundle, expected(model))
    plan = open_bundle(bundle).plan
    assert {file.path for file in plan.model.files} == {file for file, _ in EXTERNAL.values()} | {model.name}
    assert not any(
        weight.tobytes()[:64] in content for content in contents(bundle).values() for weight in _large(model)
    )


def _large(model: Path) -> Iterator[np.ndarray]:
    from onnx import load, numpy_helper

    yield from (numpy_helper.to_array(t) for t in load(model).graph.initializer if t.name != "small")


def test_a_bundle_holds_no_bytes_of_large_weights(tmp_path: Path) -> None:
    """Its size depends on the ops alone."""
    sizes: list[int] = []
    for elements in (10_000, 1_000_000):
        path = tmp_path / f"{elements}.onnx"
        path.write_bytes(_one_weight(elements))
        bundle = hetpart.partition(path, hardware="emulated", pin="op:Add=cuda").save(tmp_path / f"{elements}.hetpart")
        sizes.append(sum((bundle / file).stat().st_size for file in os.listdir(bundle)))
    assert abs(sizes[1] - sizes[0]) < 200


def _one_weight(elements: int) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [elements]) for name in ("x", "z")]
    weight = numpy_helper.from_array(np.ones(elements, np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


def test_the_model_and_its_bundle_move_together(model: Path, tmp_path: Path) -> None:
    result = expected(model)
    partitioned(model).save(model.parent / "out" / "m.hetpart")
    shutil.move(model.parent, tmp_path / "elsewhere")
    assert_runs(tmp_path / "elsewhere" / "out" / "m.hetpart", result)


def test_a_bundle_moves_alone(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    partitioned(model.name).save("m.hetpart")
    away = tmp_path / "far" / "away"
    away.mkdir(parents=True)
    shutil.move("m.hetpart", away / "moved")
    monkeypatch.chdir(away)
    assert_runs(Path("moved"), expected(model))


def test_a_bundle_moves_to_where_files_of_the_same_names_are(model: Path, tmp_path: Path) -> None:
    partitioned(model).save(model.parent / "m.hetpart")
    other = write_model(tmp_path / "other")
    (other.parent / "first.bin").write_bytes(b"\x3d" * 30_000)
    shutil.move(model.parent / "m.hetpart", other.parent / "m.hetpart")
    assert_runs(other.parent / "m.hetpart", expected(model))


def test_a_bundle_is_opened_through_links(model: Path, tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    partitioned(model).save(tmp_path / "link" / "m.hetpart")
    (tmp_path / "direct").symlink_to(tmp_path / "real" / "deep" / "m.hetpart")
    for bundle in (tmp_path / "link" / "m.hetpart", tmp_path / "direct"):
        assert_runs(bundle, expected(model))


def test_a_self_contained_bundle_needs_nothing_else(model: Path, tmp_path: Path) -> None:
    result = expected(model)
    bundle = partitioned(model, verify="full").save(tmp_path / "m.hetpart", self_contained=True)
    shutil.rmtree(model.parent)
    shutil.move(bundle, tmp_path / "moved")
    assert_runs(tmp_path / "moved", result, verify="full")
    opened = open_bundle(tmp_path / "moved")
    assert (opened.plan.model.folder, [file.path for file in opened.plan.model.files]) == ("", [GATHERED_FILE])


def test_gathered_weights_are_there_once_and_begin_on_pages(model: Path, tmp_path: Path) -> None:
    import onnx

    bundle = partitioned(model).save(tmp_path / "m.hetpart", self_contained=True)
    protos = [onnx.load(path, load_external_data=False) for path in sorted(bundle.glob("*.onnx"))]
    offsets = [int(reference_of(tensor)["offset"]) for tensor in external_tensors(protos)]
    assert len(set(offsets)) == len(offsets) == 5
    assert all(offset % 4096 == 0 for offset in offsets)
    assert (bundle / GATHERED_FILE).stat().st_size < 5 * 8000 + 5 * 4096


CHANGES: dict[str, Callable[[Path], Any]] = {
    "a byte": lambda path: path.write_bytes(b"\x3e" + path.read_bytes()[1:]),
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "gone": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("file", [*sorted({file for file, _ in EXTERNAL.values()}), "model.onnx"])
def test_changed_weights_are_refused(model: Path, tmp_path: Path, file: str, change: str) -> None:
    saved = partitioned(model)
    bundle = saved.save(tmp_path / "m.hetpart")
    CHANGES[change](model.parent / file)
    with pytest.raises(InvalidBundleError) as refused:
        open_bundle(bundle)
    assert Path(file).name.split("'")[0] in str(refused.value)
    assert refused.value.hint
    with pytest.raises(InvalidBundleError):
        saved.save(tmp_path / "own.hetpart", self_contained=True)
    assert os.listdir(tmp_path) == sorted({"m.hetpart", model.parent.name}, key=os.listdir(tmp_path).index)


def test_a_full_check_needs_and_uses_full_digests(model: Path, tmp_path: Path) -> None:
    sampled = partitioned(model).save(tmp_path / "sampled")
    with pytest.raises(InvalidBundleError, match="--verify full"):
        open_bundle(sampled, verify_full=True)
    assert_runs(partitioned(model, verify="full").save(tmp_path / "full"), expected(model), verify="full")


def _folder_with(name: str, content: bytes) -> Callable[[Path], Any]:
    def make(path: Path) -> None:
        path.mkdir()
        (path / name).write_bytes(content)

    return make


def _bundle_and(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def add(path: Path) -> None:
        path.mkdir()
        (path / "plan.json").write_bytes(b'{"schema": "hetpart.plan", "version": 1}')
        make(path)

    return add


OTHERS: dict[str, Callable[[Path], Any]] = {
    "a file": lambda path: path.write_bytes(b"thesis"),
    "an empty folder": Path.mkdir,
    "a folder of another kind": _folder_with("thesis.tex", b"thesis"),
    "a folder with another plan.json": _folder_with("plan.json", b'{"schema": "holidays"}'),
    "a folder with a damaged plan.json": _folder_with("plan.json", b'{"schema": "hetpa'),
    "a bundle with something beside it": _bundle_and(lambda path: (path / "notes.txt").write_bytes(b"notes")),
    "a bundle with a folder in it": _bundle_and(lambda path: (path / "src").mkdir()),
    "a link to a bundle": lambda path: (
        _bundle_and(lambda _: None)(path.with_name("real")), path.symlink_to(path.with_name("real"))
    ),
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_not_a_bundle_is_never_replaced(model: Path, tmp_path: Path, kind: str) -> None:
    saved, place = partitioned(model), tmp_path / "precious"
    OTHERS[kind](place)
    before, names = contents(tmp_path), sorted(os.listdir(tmp_path))
    with pytest.raises(InvalidBundleError, match="not a hetpart bundle") as refused:
        saved.save(place)
    assert refused.value.hint
    assert (contents(tmp_path), sorted(os.listdir(tmp_path))) == (before, names)


def test_a_bundle_that_holds_its_own_model_stays(model: Path, tmp_path: Path) -> None:
    bundle = partitioned(model).save(tmp_path / "m.hetpart", self_contained=True)
    before = contents(bundle)
    inner = hetpart.partition(bundle / "partition-001.onnx", hardware="emulated")
    for self_contained in (False, True):
        with pytest.raises(InvalidBundleError, match="that it would be made from"):
            inner.save(bundle, self_contained=self_contained)
    assert contents(bundle) == before


@pytest.fixture(params=["in one step", "in two"])
def replacing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Linux's exchange of two paths, and as where there is none."""
    if request.param == "in two":
        monkeypatch.setattr(swap, "_exchange", lambda _, __: False)


@pytest.mark.usefixtures("replacing")
def test_a_bundle_is_replaced(model: Path, tmp_path: Path) -> None:
    place = tmp_path / "m.hetpart"
    hetpart.partition(model, hardware="emulated", placement="all-cpu").save(place, self_contained=True)
    assert "weights.bin" in os.listdir(place)
    partitioned(model).save(place)
    assert "weights.bin" not in os.listdir(place)
    assert sorted(os.listdir(tmp_path)) == ["m.hetpart", model.parent.name]
    assert_runs(place, expected(model))


class Fault:
    """Every function of the operating system that writing goes through; the one numbered ``at`` fails."""

    FUNCTIONS = ((pathlib.Path, "mkdir"), (pathlib.Path, "open"), (pathlib.Path, "rename"), (os, "fsync"), (bundles.tempfile, "mkdtemp"))  # fmt: skip  # noqa: E501

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.calls, self.at = 0, at
        for owner, name in self.FUNCTIONS:
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **options)

        return call


@pytest.mark.usefixtures("replacing")
@pytest.mark.parametrize("self_contained", [False, True])
def test_whichever_call_fails_the_old_bundle_stays_and_nothing_else(
    model: Path, tmp_path: Path, self_contained: bool
) -> None:
    place, saved = tmp_path / "m.hetpart", partitioned(model)
    hetpart.partition(model, hardware="emulated", placement="all-cpu").save(place)
    before, names = contents(place), sorted(os.listdir(tmp_path))
    for at in range(1, 100):
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, at)
            try:
                saved.save(place, self_contained=self_contained)
                break
            except HetpartError as error:
                refusal = str(error)
        assert "No space left on device\n  hint: " in refusal
        assert (contents(place), sorted(os.listdir(tmp_path))) == (before, names)
    assert fault.calls >= 15
    assert contents(place) != before
    assert sorted(os.listdir(tmp_path)) == names


def test_an_old_bundle_that_cannot_be_put_back_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = partitioned(model).save(tmp_path / "m.hetpart")
    before, rename = contents(place), pathlib.Path.rename
    monkeypatch.setattr(swap, "_exchange", lambda _, __: False)

    def only_away(source: Path, target: Path) -> Path:
        if source == place:
            return rename(source, target)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(pathlib.Path, "rename", only_away)
    with pytest.raises(HetpartError, match="Input/output error") as failed:
        partitioned(model).save(place)
    (kept,) = tmp_path.glob(".hetpart-*/old")
    assert contents(kept) == before
    assert str(kept) in failed.value.hint


def test_a_disk_that_fills_up(model: Path) -> None:
    """A limit on file sizes makes a real write fail half-way."""
    script = (
        "import resource, hetpart; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "try: hetpart.partition('model.onnx', hardware='emulated').save('m.hetpart', self_contained=True)\n"
        "except hetpart.HetpartError as error: print(error)"
    )
    names = sorted(os.listdir(model.parent))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=model.parent, capture_output=True, text=True, check=True,
        env={**BARE, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert "cannot write the bundle m.hetpart: File too large" in done.stdout
    assert sorted(os.listdir(model.parent)) == names


@pytest.mark.parametrize(
    ("umask", "folder", "file"), [(0o022, 0o755, 0o644), (0o027, 0o750, 0o640), (0o077, 0o700, 0o600)]
)
def test_permissions_are_what_the_umask_gives(model: Path, tmp_path: Path, umask: int, folder: int, file: int) -> None:
    saved, before = partitioned(model), os.umask(umask)
    try:
        bundle = saved.save(tmp_path / "new" / "m.hetpart", self_contained=True)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (bundle, *bundle.iterdir())}
    assert modes.pop("m.hetpart") == folder
    assert set(modes.values()) == {file}


def test_equal_inputs_give_equal_bytes_whatever_the_hash_seed(model: Path, tmp_path: Path) -> None:
    for seed in ("0", "4321"):
        command = [sys.executable, "-m", "hetpart", "partition", model, "--hardware", "emulated", "-o", tmp_path / seed]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env={**BARE, "PYTHONHASHSEED": seed}
        )
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "0") == contents(tmp_path / "4321")


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "no plan": lambda bundle: (bundle / "plan.json").unlink(),
    "an empty plan": lambda bundle: (bundle / "plan.json").write_bytes(b""),
    "a plan that is a folder": lambda bundle: ((bundle / "plan.json").unlink(), (bundle / "plan.json").mkdir()),
    "a partition gone": lambda bundle: (bundle / "partition-003.onnx").unlink(),
    "everything gone": shutil.rmtree,
    "a file in its place": lambda bundle: (shutil.rmtree(bundle), bundle.write_bytes(b"x")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_bundle_is_one_clear_message(model: Path, tmp_path: Path, damage: str) -> None:
    bundle = partitioned(model).save(tmp_path / "m.hetpart")
    DAMAGE[damage](bundle)
    with pytest.raises(InvalidBundleError, match=r"m\.hetpart|partition-003"):
        open_bundle(bundle)
