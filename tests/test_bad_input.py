"""What bad input gets on the command line: one clear message with a hint, exit code 2 or 1, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from hetpart.cli import main
from tests.graph.models import from_text

ROOT = Path(__file__).parent.parent
MACHINE = ("--hardware", "l4+generic-2core")
SHAPE = ("--shape", "batch=8")
PLANNED = (*SHAPE, *MACHINE)
RUN = ("--emulate", "--random")
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
SMALL = """<ir_version: 9, opset_import: ["": 18, "own": 1]> small (float[2, 3] x) => (float[2, 3] y) <float[3] w>
    { a = Add (x, w)  b = Relu (a)  y = Neg (b) }"""


@dataclass(frozen=True)
class Answer:
    code: int
    stdout: str
    stderr: str


def hetpart(*args: str | Path) -> Answer:
    """What the command line does in this process."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    return Answer(result.exit_code, result.stdout, result.stderr)


def files(folder: Path) -> dict[str, bytes]:
    """Everything below ``folder``, links as what they lead to."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def refused(*args: str | Path, code: int = 2) -> str:
    """The message of a command that fails as it should: nothing on standard output, and no file other than before."""
    before = files(Path())
    answer = hetpart(*args)
    assert (answer.code, answer.stdout) == (code, ""), answer
    assert re.fullmatch(r"error: (?!internal)[^\n]+\nhint: [^\n]+\n", answer.stderr), answer.stderr
    assert "Traceback" not in answer.stderr
    assert files(Path()) == before
    return answer.stderr


@pytest.fixture
def folder(zoo_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which holds ``m.onnx`` and its weights in ``m.data``."""
    source = zoo_model("wide-and-deep-tiny")
    model = onnx.load(source, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "m.data"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    shutil.copy(source.with_name(f"{source.name}.data"), tmp_path / "m.data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bundle(folder: Path) -> Path:
    """A bundle that was made from ``m.onnx``, with partitions on both devices."""
    answer = hetpart("partition", "m.onnx", *PLANNED, "--placement", "random:2", "-q")
    assert answer.code == 0, answer
    return folder / "m.hetpart"


def write(name: str, change: Callable[[onnx.ModelProto], object]) -> str:
    model = from_text(SMALL)
    change(model)
    Path(name).write_bytes(model.SerializeToString())
    return name


def set_location(location: str) -> None:
    model = onnx.load("m.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    Path("m.onnx").write_bytes(model.SerializeToString())


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "x.onnx is empty (0 bytes)"),
    "a git-LFS pointer": (
        LFS,
        "x.onnx is a git-LFS pointer of 74 bytes, not the file itself\nhint: run `git lfs pull`",
    ),
    "a web page": (b"<!DOCTYPE html><html>404</html>", "is not an ONNX model: it is a web page"),
    "a PyTorch file": (b"PK\x03\x04" + bytes(500), "is not an ONNX model: it is a zip archive, as PyTorch"),
    "text": (b"hello world\n", "x.onnx of 12 bytes is not an ONNX model"),
    "noise": (bytes(range(255, 0, -1)) * 9, "is not an ONNX model"),
    "a graph of nothing": (b"\x08\x09", "x.onnx holds no graph"),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("content", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_what_is_no_model_is_told_apart(content: bytes, said: str) -> None:
    Path("x.onnx").write_bytes(content)
    assert said in refused("partition", "x.onnx")


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("command", ["lint", "sweep", "annotate", "partition"])
def test_a_bundle_is_no_model(command: str) -> None:
    said = refused(command, "m.hetpart")
    assert "m.hetpart is a bundle" in said
    assert "`hetpart report`, `run` and `diff` take bundles" in said


@pytest.mark.usefixtures("folder")
def test_a_truncated_model_is_told_wherever_it_ends() -> None:
    whole = Path("m.onnx").read_bytes()
    for length in range(30, len(whole), 97):
        Path("x.onnx").write_bytes(whole[:length])
        said = refused("partition", "x.onnx", *PLANNED)
        assert f"x.onnx is cut short: it ends after {length:,} bytes" in said
        assert "download or export it again" in said


@pytest.mark.usefixtures("folder")
def test_a_path_that_is_no_file_is_told() -> None:
    assert "none.onnx does not exist" in refused("partition", "none.onnx")
    assert ". is a folder" in refused("partition", ".")
    assert "cannot be read: File name too long" in refused("partition", f"{'x' * 300}.onnx")


EXTERNAL: dict[str, tuple[Callable[[], object], str]] = {
    "missing": (lambda: Path("m.data").unlink(), "needs 'm.data', which does not exist, and so do 7 more"),
    "short": (lambda: os.truncate("m.data", 1000), "of 'm.data', which has 1000: the file is cut short"),
    "empty": (lambda: os.truncate("m.data", 0), "which has 0"),
    "a git-LFS pointer": (lambda: Path("m.data").write_bytes(LFS), "m.data is a git-LFS pointer"),
    "in a parent folder": (lambda: set_location("../m.data"), "points outside the model's folder: '../m.data'"),
    "in a parent folder, further in": (lambda: set_location("a/../../m.data"), "points outside the model's folder"),
    "at an absolute path": (lambda: set_location("/etc/passwd"), "points outside the model's folder: '/etc/passwd'"),
    "a link that leads out": (
        lambda: (Path("m.data").unlink(), Path("m.data").symlink_to("/etc/passwd")),
        "needs 'm.data', a link that leads out of the model's folder to /etc/passwd: copy that file in its place"),
    "nowhere": (lambda: set_location(""), "points outside the model's folder: ''"),
}  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("damage", "said"), EXTERNAL.values(), ids=EXTERNAL)
def test_weights_that_cannot_be_read_are_told(damage: Callable[[], object], said: str) -> None:
    damage()
    assert said in refused("partition", "m.onnx", *PLANNED)


def returning(model: onnx.ModelProto, op_type: str, domain: str) -> None:
    model.graph.node[2].CopyFrom(helper.make_node(op_type, ["b"], ["y"], domain=domain, name="new"))


BROKEN: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "one value made twice": (lambda m: m.graph.node[1].output.__setitem__(0, "a"), "made more than once: 'a'"),
    "a cycle": (lambda m: m.graph.node[0].input.__setitem__(0, "b"), "in a cycle: 'Add' → 'Relu' → 'Add'"),
    "a value that nothing makes": (lambda m: m.graph.node[0].input.__setitem__(0, "q"), "used but never made: 'q'"),
    "an operator that nobody knows": (
        lambda m: returning(m, "Frob", "own"), "no device can run Frob ('new'): no provider knows own.Frob"),
    "an operator that ONNX does not have": (lambda m: returning(m, "Rleu", ""), "do not exist: 'Rleu' ('new')"),
    "a domain that is not imported": (lambda m: returning(m, "F", "other"), "not imported: F ('new') is of domain"),
    "dimensions beyond any machine": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2**62), "than any machine"),
}  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("damage", "said"), BROKEN.values(), ids=BROKEN)
def test_a_graph_that_is_none_is_told(damage: Callable[[onnx.ModelProto], object], said: str) -> None:
    assert said in refused("partition", write("x.onnx", damage), *MACHINE)


def test_names_in_messages_move_no_cursor(folder: Path) -> None:
    del folder
    name = "\x1b[2Jgone\x07\nerror: forged"
    said = refused("partition", write("x.onnx", lambda m: m.graph.node[0].input.__setitem__(0, name)), *MACHINE)
    assert "\\x1b[2Jgone\\x07\\nerror: forged" in said


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "budget", ["-1", "-5GB", "lots", "", "16XB", "1e400GB", "nan", "0x10", "GB", "cuda:0=", "=1GB", "-3%"]
)
def test_a_budget_that_is_no_size_says_what_to_write(budget: str) -> None:
    said = refused("partition", "m.onnx", *PLANNED, "--budget", budget)
    assert "hint: write --budget 16GB" in said
    assert repr(budget) in said


@pytest.mark.usefixtures("folder")
def test_a_budget_of_more_than_there_is_or_of_another_device_is_told() -> None:
    assert "'200%' is more than the device's memory" in refused("partition", "m.onnx", *PLANNED, "--budget", "200%")
    assert "hint: its devices are cpu, cuda:0" in refused("partition", "m.onnx", *PLANNED, "--budget", "cuda:7=1GB")
    both = ("--budget", "1GB", "--budget", "2GB")
    assert "'1GB' and '2GB' contradict" in refused("partition", "m.onnx", *PLANNED, *both)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "pins", [("op:Gather=cuda",), ("op:Gemm=cuda",), ("*=cuda",), ("/deep/embedding/*=cuda", "op:Sigmoid=cuda")]
)
def test_the_smallest_budget_in_the_message_is_the_smallest(pins: tuple[str, ...]) -> None:
    pinned = [option for pin in pins for option in ("--pin", pin)]
    said = refused("partition", "m.onnx", *PLANNED, *pinned, "--budget", "1kB", code=1)
    assert "it must hold " in said
    found = re.search(r"hint: the smallest budget[^\n]* is --budget cuda:0=(\d+)", said)
    assert found is not None, said
    least = int(found[1])
    refused("partition", "m.onnx", *PLANNED, *pinned, "--budget", str(least - 1), code=1)
    assert hetpart("partition", "m.onnx", *PLANNED, *pinned, "--budget", str(least), "-q").code == 0


def change(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (old,) = file.read(1)
        file.seek(at)
        file.write(bytes([old ^ 1]))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (lambda path: change(path, 100), "changed since the plan was made; its size did not"),
    "its last byte": (lambda path: change(path, path.stat().st_size - 1), "changed since the plan was made"),
    "shorter": (lambda path: os.truncate(path, 5000), "changed since the plan was made: 5000 bytes, and"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "changed since the plan was made"),
    "gone": (lambda path: path.unlink(), "the weights of m.hetpart (m.data) are not in"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "the weights of m.hetpart (m.data) are not in"),
}


@pytest.mark.parametrize(("damage", "said"), CHANGES.values(), ids=CHANGES)
def test_a_weight_file_that_is_another_than_planned_is_refused(
    bundle: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(bundle.parent / "m.data")
    assert said in refused("run", "m.hetpart", *RUN)


def edit_plan(bundle: Path, edit: Callable[[dict[str, object]], object]) -> None:
    content = json.loads((bundle / "plan.json").read_text())
    edit(content)
    (bundle / "plan.json").write_text(json.dumps(content))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no plan": (lambda b: (b / "plan.json").unlink(), "is not a bundle: it has no plan.json"),
    "an empty plan": (lambda b: os.truncate(b / "plan.json", 0), "plan.json is damaged"),
    "half a plan": (lambda b: os.truncate(b / "plan.json", 2000), "plan.json is damaged"),
    "another document": (lambda b: (b / "plan.json").write_text("{}"), "is not a plan: its schema is ''"),
    "a plan of the future": (lambda b: edit_plan(b, lambda plan: plan.update(version=99)), "hint: upgrade hetpart"),
    "a plan without devices": (lambda b: edit_plan(b, lambda plan: plan.pop("devices")), "is not a plan: "),
    "a partition missing": (lambda b: min(b.glob("*.onnx")).unlink(), "the bundle lacks "),
    "half a partition": (lambda b: os.truncate(min(b.glob("*.onnx")), 150), "bundle is damaged: partition-000"),
    "a weight file outside": (
        lambda b: edit_plan(b, lambda plan: plan["model"]["files"][0].update(path="../../passwd")), "passwd) are not"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_bundle_is_refused(bundle: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(bundle)
    assert said in refused("run", "m.hetpart", *RUN)


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("command", [("run", *RUN), ("report",)])
def test_what_is_no_bundle_is_told(command: tuple[str, ...]) -> None:
    name, *options = command
    for place, said in (("m.data", "m.data is"), ("none", "does not exist"), (".", "has no plan.json")):
        assert said in refused(name, place, *options)
    told = refused(name, "m.onnx", *options)
    assert {"run": "the bundle m.onnx is a file", "report": "is a model, and no bundle yet"}[name] in told
    assert "hint: make one with `hetpart partition " in told


FEEDS: dict[str, tuple[tuple[str, ...], np.ndarray, str]] = {
    "no value": ((), np.zeros(1), "no value for the input 'ids'\nhint: give --input NAME=FILE.npy, or --random"),
    "an unknown name": (
        ("idz=x.npy", "ids=x.npy"),
        np.zeros((8, 39), np.int64),
        "no input 'idz'\nhint: its inputs are",
    ),
    "another rank": (("ids=x.npy",), np.zeros(8, np.int64), "'ids' has shape [8], planned was [8, 39]"),
    "another size": (("ids=x.npy",), np.zeros((9, 39), np.int64), "'ids' has shape [9, 39], planned was [8, 39]"),
    "another type": (("ids=x.npy",), np.zeros((8, 39), np.int32), "'ids' has dtype int32, planned was int64"),
    "floating point": (("ids=x.npy",), np.zeros((8, 39)), "hint: convert it with .astype('int64')"),
    "an index beyond the table": (("ids=x.npy",), np.full((8, 39), 10**6), "indices element out of data bounds"),
    "a missing file": (("ids=none.npy",), np.zeros(1), "cannot read 'none.npy' for the input 'ids': No such file"),
    "no array": (("ids=m.data",), np.zeros(1), "is not an .npy array"),
    "no name": (("x.npy",), np.zeros(1), "is not name=file\nhint: write --input name=file.npy"),
    "a name given twice": (("ids=x.npy", "ids=x.npy"), np.zeros(1), "'ids' is given twice"),
}


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize(("given", "array", "said"), FEEDS.values(), ids=FEEDS)
def test_a_feed_that_is_not_what_was_planned_is_told(given: tuple[str, ...], array: np.ndarray, said: str) -> None:
    np.save("x.npy", array)
    assert said in refused("run", "m.hetpart", "--emulate", *(part for text in given for part in ("--input", text)))


@pytest.mark.usefixtures("bundle")
def test_an_array_of_objects_is_not_unpickled() -> None:
    np.save("x.npy", np.array([{"a": 1}], object))
    assert "is not an .npy array" in refused("run", "m.hetpart", "--emulate", "--input", "ids=x.npy")


def limited(nbytes: int, *args: str | Path) -> Answer:
    """What the command line does in a process that may write no file larger than ``nbytes``, as on a full disk."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))

    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "hetpart", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, preexec_fn=limit)
    return Answer(done.returncode, done.stdout, done.stderr)


PARTS = {"the plan": (2_000, ()), "the weights": (100_000, ("--self-contained",))}


@pytest.mark.parametrize(("nbytes", "options"), PARTS.values(), ids=PARTS)
def test_a_bundle_that_cannot_be_written_leaves_the_one_before(
    bundle: Path, nbytes: int, options: tuple[str, ...]
) -> None:
    before = files(bundle.parent)
    answer = limited(nbytes, "partition", "m.onnx", *PLANNED, *options)
    assert (answer.code, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: cannot write the bundle m.hetpart: File too large\nhint: free some space")
    assert answer.stderr.count("\n") == 2
    assert files(bundle.parent) == before
    assert hetpart("run", "m.hetpart", *RUN).code == 0


@pytest.mark.usefixtures("bundle")
def test_a_bundle_that_cannot_be_written_leaves_nothing() -> None:
    before = files(Path())
    answer = limited(2_000, "partition", "m.onnx", *PLANNED, "-o", "new.hetpart")
    assert (answer.code, answer.stdout) == (2, "")
    assert files(Path()) == before
    assert not Path("new.hetpart").exists()


@pytest.mark.usefixtures("bundle")
def test_results_that_cannot_be_written_leave_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hetpart("run", "m.hetpart", *RUN, "--output", "out").code == 0
    assert [path.name for path in Path("out").iterdir()] == ["probability.npy"]

    def save_half(file: object, *_: object, **__: object) -> None:
        file.write(b"\x93NUMPY")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", save_half)
    said = refused("run", "m.hetpart", *RUN, "--seed", "1", "--output", "out")
    assert "No space left on device" in said
    assert "free some space" in said


@pytest.mark.usefixtures("bundle")
def test_what_stands_in_the_way_is_not_replaced() -> None:
    Path("notes").mkdir()
    Path("notes/mine.txt").write_text("mine")
    for place in ("notes", "m.onnx", "."):
        assert "choose another place with -o" in refused("partition", "m.onnx", *PLANNED, "-o", place)
    assert "cannot write the bundle m.onnx/new.hetpart" in refused(
        "partition", "m.onnx", *PLANNED, "-o", "m.onnx/new.hetpart"
    )
