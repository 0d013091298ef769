"""The command line from a model to a checked run, each step in a process of its own, as users run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnxruntime
import pytest

from hetpart.cost_model.calibrated import FOLDER_VARIABLE

ROOT = Path(__file__).parent.parent
SHAPE = ("--shape", "batch=8")
MACHINE = ("--hardware", "l4+generic-2core")


def hetpart(*args: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hetpart", *map(str, args)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "CUDA_VISIBLE_DEVICES": "-1"}
    environment |= {FOLDER_VARIABLE: os.environ[FOLDER_VARIABLE]}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


def answer(*args: str | Path, cwd: Path = ROOT) -> dict[str, Any]:
    """What a command that goes well prints with ``--json``."""
    done = hetpart(*args, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def model(zoo_model: Callable[[str], Path]) -> Path:
    return zoo_model("wide-and-deep-tiny")


@pytest.fixture(scope="module")
def bundle(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with cuts both ways, as a placement by chance has."""
    path = tmp_path_factory.mktemp("bundles") / "wide.hetpart"
    content = answer("partition", model, *SHAPE, *MACHINE, "--placement", "random:2", "-o", path)
    assert {copy["source"] for copy in content["plan"]["transfers"]} == {"cpu", "cuda:0"}
    return path


def test_partition_makes_a_bundle_whose_plan_obeys_the_schema(bundle: Path) -> None:
    schema = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
    jsonschema.validate(json.loads((bundle / "plan.json").read_text()), schema)


def test_report_says_what_partition_said(bundle: Path) -> None:
    done = hetpart("report", bundle)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Machine")
    assert answer("report", bundle)["plan"] == json.loads((bundle / "plan.json").read_text())


@pytest.mark.parametrize("how", [("--check",), ("--exact",), ("--check", "--verify", "sampled", "--threads", "1")])
def test_a_run_is_checked_against_the_uncut_model(bundle: Path, how: tuple[str, ...]) -> None:
    content = answer("run", bundle, "--random", "--emulate", "--repeat", "2", *how)
    assert content["check"]["equal"] is True
    assert content["runs"] == 2
    assert content["partitions"] == len(json.loads((bundle / "plan.json").read_text())["partitions"])
    assert set(content["copies"]) == {"cpu->cuda:0", "cuda:0->cpu"}


def test_given_inputs_give_the_uncut_models_results(model: Path, bundle: Path, tmp_path: Path) -> None:
    ids = np.random.default_rng(5).integers(0, 10, (8, 39))
    np.save(tmp_path / "ids.npy", ids)
    content = answer("run", bundle, "--emulate", "--input", "ids=ids.npy", "--output", "out", cwd=tmp_path)
    (written,) = content["files"]
    (expected,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"ids": ids})
    np.testing.assert_allclose(np.load(tmp_path / written), expected, rtol=1e-5)


def test_a_bundle_runs_from_another_folder_and_a_self_contained_one_without_the_model(
    model: Path, bundle: Path, tmp_path: Path
) -> None:
    assert answer("run", bundle.name, "--random", "--emulate", cwd=bundle.parent)["runs"] == 1
    own = tmp_path / "own"
    own.mkdir()
    for file in model.parent.glob(f"{model.name}*"):
        shutil.copy(file, own)
    answer("partition", model.name, *SHAPE, *MACHINE, "--self-contained", cwd=own)
    moved = tmp_path / "moved.hetpart"
    (own / f"{model.stem}.hetpart").rename(moved)
    shutil.rmtree(own)
    assert answer("run", moved, "--random", "--emulate")["runs"] == 1


def test_equal_inputs_give_equal_bytes(model: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        answer("partition", model, *SHAPE, *MACHINE, "-o", tmp_path / "m.hetpart")
        (tmp_path / "m.hetpart").rename(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def test_full_digests_see_a_changed_byte(model: Path, tmp_path: Path) -> None:
    for file in model.parent.glob(f"{model.name}*"):
        shutil.copy(file, tmp_path)
    answer("partition", model.name, *SHAPE, *MACHINE, "--verify", "full", cwd=tmp_path)
    bundle = f"{model.stem}.hetpart"
    assert answer("run", bundle, "--random", "--emulate", "--verify", "full", cwd=tmp_path)["runs"] == 1
    with (tmp_path / f"{model.name}.data").open("r+b") as file:
        file.seek(4097)
        file.write(b"\x99")
    done = hetpart("run", bundle, "--random", "--emulate", "--verify", "full", cwd=tmp_path)
    assert done.returncode == 2
    assert "changed since the plan was made" in done.stderr


BAD_PARTITION = {
    "no shape": ((), 2, "batch"),
    "a budget that is no size": ((*SHAPE, "--budget", "lots"), 2, "not a size"),
    "a negative budget": ((*SHAPE, "--budget", "-1GB"), 2, "negative"),
    "a pin of nothing": ((*SHAPE, "--pin", "op:Gathr=cpu"), 2, "did you mean 'Gather'"),
    "a pin to nowhere": ((*SHAPE, "--pin", "op:Gather=cuda:5"), 2, "cuda:5"),
    "pins that contradict": ((*SHAPE, "--pin", "op:Gather=cpu", "--pin", "*Gather=cuda"), 2, "contradict"),
    "unknown hardware": ((*SHAPE, "--hardware", "abacus"), 2, "abacus"),
    "unknown placement": ((*SHAPE, "--placement", "best"), 2, "best"),
    "pins beyond the budget": ((*SHAPE, "--budget", "1kB", "--pin", "op:Gather=cuda"), 1, "hint:"),
}


@pytest.mark.parametrize(("options", "code", "said"), BAD_PARTITION.values(), ids=BAD_PARTITION)
def test_bad_options_are_one_clear_message(
    model: Path, tmp_path: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    done = hetpart("partition", model, *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_smallest_budget_that_would_do_does(model: Path, tmp_path: Path) -> None:
    pinned = (*SHAPE, *MACHINE, "--pin", "op:Gather=cuda")
    done = hetpart("partition", model, *pinned, "--budget", "1kB", "--json", cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (1, "InfeasibleError")
    least = str(error["required_bytes"])
    assert answer("partition", model, *pinned, "--budget", least, cwd=tmp_path)["summary"]["fits"] is True


def test_what_is_not_a_model_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    for name in ("m.onnx", "none.onnx", "."):
        done = hetpart("partition", name, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_without_a_gpu_names_the_flag(bundle: Path) -> None:
    done = hetpart("run", bundle, "--random")
    assert done.returncode == 2
    assert "--emulate" in done.stderr


@pytest.mark.parametrize(
    ("inputs", "said"),
    [((), "ids"), (("--input", "idz={file}", "--random"), "idz"), (("--input", "ids={file}"), "ids")],
)
def test_a_wrong_feed_is_one_clear_message(bundle: Path, tmp_path: Path, inputs: tuple[str, ...], said: str) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 3), np.float16))
    options = [option.format(file=tmp_path / "x.npy") for option in inputs]
    done = hetpart("run", bundle, "--emulate", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{said}'" in done.stderr
    assert "Traceback" not in done.stderr
