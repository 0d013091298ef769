from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hetpart import compiler
from hetpart.cli import main
from hetpart.errors import ExecutionError, InfeasibleError, InvalidModelError, MismatchError
from hetpart.partitioner.search.baselines import BASELINES
from hetpart.plan.io import write_plan
from hetpart.plan.model import Plan
from hetpart.plan.run import CheckResult, OutputSpec, RunReport
from hetpart.runtime import check
from tests.plans import wide_and_deep_plan

ROOT = Path(__file__).parent.parent
PLAN = wide_and_deep_plan()
MEASURED = RunReport(
    bundle="m.hetpart", runs=20, median_seconds=0.002, min_seconds=0.0018, predicted_seconds=0.0015, partitions=2,
    copies={"cpu->cuda:0": 2, "cuda:0->cpu": 1}, copied_bytes={"cpu->cuda:0": 798_976, "cuda:0->cpu": 256},
    outputs=(OutputSpec("score", "float32", (64, 1)),), emulated=True, machine="emulated+generic-2core",
    check=CheckResult(equal=True, exact=False, largest_difference=1e-7, worst_output="score", tolerance=1e-5),
)  # fmt: skip


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@dataclass
class FakeModel:
    plan: Plan
    saved: dict[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path, *, self_contained: bool = False) -> Path:
        self.saved |= {"path": Path(path), "self_contained": self_contained}
        return Path(path)


@dataclass
class FakeCompiler:
    """Stands in for ``compiler.partition``: remembers its options, prints as native libraries do, may fail."""

    model: FakeModel = field(default_factory=lambda: FakeModel(PLAN))
    asked: dict[str, Any] = field(default_factory=dict)
    problem: BaseException | None = None

    def __call__(self, model: Path, **options: Any) -> FakeModel:
        self.asked = {"model": model, **options}
        options["progress"]("placing")
        os.write(1, b"HiGHS says hello\n")
        if self.problem is not None:
            raise self.problem
        return self.model


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    fake = FakeCompiler()
    monkeypatch.setattr(compiler, "partition", fake)
    return fake


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "m.hetpart"
    path.mkdir()
    (path / "plan.json").write_bytes(write_plan(PLAN))
    return path


def test_every_option_of_partition_reaches_the_compiler(fake: FakeCompiler) -> None:
    result = invoke(
        *("partition", "m.onnx", "--budget", "16GB", "--budget", "cpu=1GB", "--hardware", "l4", "--shape", "batch=8"),
        *("--pin", "op:Gather=cpu", "--placement", "random:3", "--threads", 2, "--time-limit", 9, "--verify", "full"),
        *("-o", "out.hetpart", "--self-contained", "--trip-count", "loop*=8", "--access", "access.json"),
        *("--colocate", "a.*", "--host-budget", "8GB", "--headroom", "10%", "--max-partitions", 3, "--min-gain", "5%"),
        *("--io", "logits=cuda", "--state", "past=present", "--overlap"),
    )  # fmt: skip
    assert result.exit_code == 0
    del fake.asked["progress"]
    assert fake.asked == {
        "model": Path("m.onnx"), "budget": ("16GB", "cpu=1GB"), "hardware": "l4", "shape": ("batch=8",),
        "pin": ("op:Gather=cpu",), "placement": "random:3", "threads": 2, "time_limit": 9.0, "verify": "full",
        "trip_count": ("loop*=8",), "access": Path("access.json"), "colocate": ("a.*",), "host_budget": "8GB",
        "headroom": "10%", "max_partitions": 3, "min_gain": "5%", "io": ("logits=cuda",), "state": ("past=present",),
        "overlap": True,
    }  # fmt: skip
    assert fake.model.saved == {"path": Path("out.hetpart"), "self_contained": True}


def test_what_is_not_given_is_left_to_the_compiler(fake: FakeCompiler) -> None:
    assert invoke("partition", "folder/m.onnx").exit_code == 0
    assert (fake.asked["budget"], fake.asked["hardware"]) == (None, None)
    assert not {"time_limit", "shape", "pin", "max_partitions"} & set(fake.asked)
    assert fake.model.saved == {"path": Path("m.hetpart"), "self_contained": False}


@pytest.mark.usefixtures("fake")
def test_partition_prints_the_report_and_where_the_bundle_is() -> None:
    result = invoke("partition", "m.onnx")
    assert result.stdout.startswith("Machine  l4+generic-2core")
    assert result.stdout.endswith("\nWritten to m.hetpart\n")
    assert result.stderr == ""


@pytest.mark.usefixtures("fake")
def test_quiet_prints_nothing() -> None:
    assert invoke("partition", "m.onnx", "--quiet").output == ""


@pytest.mark.usefixtures("fake")
def test_partition_json_is_one_object_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    result = invoke("partition", "m.onnx", "--json")
    content = json.loads(result.stdout)
    assert (content["schema"], content["version"], content["bundle"]) == ("hetpart.partition", 1, "m.hetpart")
    assert content["plan"] == json.loads(write_plan(PLAN))
    assert content["summary"]["fits"] is True
    assert content["summary"]["baselines"]["all-accelerator"]["predicted_seconds"] is None
    assert capfd.readouterr() == ("", "HiGHS says hello\n")


def _noted(note: str) -> KeyboardInterrupt:
    pressed = KeyboardInterrupt()
    pressed.add_note(note)
    return pressed


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (InvalidModelError("m.onnx is cut short", hint="fetch it again"), 2, "error: m.onnx is cut short\nhint: fetch"),
        (InfeasibleError("nothing fits", required_bytes=99, hint="99 B"), 1, "error: nothing fits\nhint: 99 B\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/out"), 2, "device: /x/out\nhint: free some space"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "error: Permission denied: /x\n"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "lone"), 2, r"error: the name '\udcff' is not valid UTF-8"),
        (MemoryError(), 2, "error: this machine's memory is used up\n"),
        (ValueError("bad\x1b[2Jname"), 2, r"error: internal error: ValueError: bad\x1b[2Jname"),
        (AssertionError("broken"), 2, "HETPART_TRACEBACK=1"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (_noted("Ctrl-C came during partition 0 on cpu (1 op, '\x1b[2J')"), 130, r"(1 op, '\x1b[2J')"),
    ],
)
def test_every_problem_is_a_message_and_an_exit_code(
    fake: FakeCompiler, problem: BaseException, code: int, said: str
) -> None:
    fake.problem = problem
    result = invoke("partition", "m.onnx")
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.output


def test_a_traceback_is_printed_where_it_is_asked_for(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETPART_TRACEBACK", "1")
    fake.problem = ValueError("inside")
    result = invoke("partition", "m.onnx")
    assert "Traceback (most recent call last)" in result.stderr
    assert "internal error: ValueError: inside" in result.stderr


def test_errors_are_one_json_object_too(fake: FakeCompiler) -> None:
    fake.problem = InfeasibleError("nothing fits", required_bytes=99, hint="give 99 B")
    result = invoke("partition", "m.onnx", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "schema": "hetpart.error",
        "version": 1,
        "error": {
            "kind": "InfeasibleError", "message": "nothing fits", "hint": "give 99 B", "exit_code": 1,
            "required_bytes": 99,
        },
    }  # fmt: skip
    assert "error: nothing fits" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("partition",),
        ("partition", "m.onnx", "--no-such-flag"),
        ("partition", "m.onnx", "--threads", "-1"),
        ("run", "m.hetpart", "--repeat", "0"),
        ("run", "m.hetpart", "--verify", "sometimes"),
        ("no-such-command",),
    ],
)
def test_wrong_usage_is_exit_code_2(args: tuple[str, ...]) -> None:
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage:" in result.stderr
    asked = invoke(*args, "--json")
    assert asked.exit_code == 2
    assert json.loads(asked.stdout)["schema"] == "hetpart.error"


def test_report_prints_the_plan_of_a_bundle(bundle: Path) -> None:
    result = invoke("report", bundle)
    assert result.exit_code == 0
    assert "Predicted latency: 602 µs" in result.stdout


def test_report_json_holds_the_plan(bundle: Path) -> None:
    content = json.loads(invoke("report", bundle, "--json").stdout)
    assert (content["schema"], content["bundle"]) == ("hetpart.report", str(bundle))
    assert content["plan"] == json.loads(write_plan(PLAN))


@pytest.mark.parametrize("name", ["none.hetpart", "."])
def test_what_is_no_bundle_is_exit_code_2(tmp_path: Path, name: str) -> None:
    result = invoke("report", tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: make a bundle with `hetpart partition MODEL`" in result.stderr


def test_json_on_a_terminal_obeys_no_name(bundle: Path) -> None:
    (bundle / "plan.json").write_bytes(write_plan(replace(PLAN, notes=("\x1b[2J\x9b\u202e\x7f",))))
    printed = invoke("report", bundle, "--json").stdout
    assert printed.isascii()
    assert not [character for character in printed if ord(character) < 32 and character != "\n"]
    assert json.loads(printed)["plan"]["notes"] == ["\x1b[2J\x9b\u202e\x7f"]


class FakeRun:
    """Stands in for ``runtime.check.run``."""

    def __init__(self, outcome: RunReport | BaseException) -> None:
        self.outcome = outcome
        self.asked: dict[str, Any] = {}

    def __call__(self, bundle: Path, **options: Any) -> RunReport:
        self.asked = {"bundle": bundle, **options}
        os.write(1, b"ONNX Runtime says hello\n")
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def fake_run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    fake_run = FakeRun(MEASURED)
    monkeypatch.setattr(check, "run", fake_run)
    return fake_run


def test_every_option_of_run_reaches_the_runtime(fake_run: FakeRun, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(3))
    result = invoke(
        *("run", "m.hetpart", "--random", "--seed", 7, "--input", f"ids={tmp_path / 'ids.npy'}", "--repeat", 20),
        *("--exact", "--emulate", "--output", "out", "--threads", 2, "--verify", "full"),
        *("--emulate-link", "12GB/s", "--no-overlap", "--native", "--trace", "t.json", "-vv"),
        *("--provider", "cpu=X", "--cuda-graph"),
    )  # fmt: skip
    assert result.exit_code == 0
    feeds = fake_run.asked.pop("feeds")
    assert list(feeds) == ["ids"]
    assert np.array_equal(feeds["ids"], np.arange(3))
    del fake_run.asked["progress"]
    assert fake_run.asked == {
        "bundle": Path("m.hetpart"), "random_seed": 7, "repeat": 20, "check": True, "exact": True, "emulate": True,
        "output": Path("out"), "threads": 2, "verify": "full", "emulate_link": "12GB/s", "overlap": False,
        "mode": "native", "trace": Path("t.json"), "verbosity": 2, "provider": ("cpu=X",), "cuda_graph": True,
    }  # fmt: skip


def test_run_prints_the_measurement_beside_the_prediction(fake_run: FakeRun) -> None:
    result = invoke("run", "m.hetpart", "--random")
    assert fake_run.asked["random_seed"] == 0
    assert "Measured   2.00 ms in the median, 1.80 ms at best" in result.stdout
    assert "Predicted  1.50 ms, 25 % below what was measured" in result.stdout
    unwrapped = " ".join(result.stdout.split())
    assert "2 partitions, 2 copies cpu → cuda:0 (799 kB), 1 copy cuda:0 → cpu (256 B)" in unwrapped
    assert "equal to the uncut model within 1e-05; the largest difference is 1e-07 in score" in unwrapped


@pytest.mark.usefixtures("fake_run")
def test_run_json_is_one_object_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    content = json.loads(invoke("run", "m.hetpart", "--random", "--json").stdout)
    assert (content["schema"], content["runs"], content["check"]["equal"]) == ("hetpart.run", 20, True)
    assert content["copies"] == {"cpu->cuda:0": 2, "cuda:0->cpu": 1}
    assert capfd.readouterr() == ("", "ONNX Runtime says hello\n")


def test_a_result_that_differs_is_printed_and_exit_code_1(fake_run: FakeRun) -> None:
    fake_run.outcome = replace(MEASURED, check=CheckResult(False, False, 0.25, "sc\x1bore", 1e-5))
    result = invoke("run", "m.hetpart", "--random", "--check")
    assert result.exit_code == 1
    assert "differs from the uncut model" in result.stdout
    assert "differs by 0.25" in result.stderr
    assert "\x1b" not in result.output
    asked = invoke("run", "m.hetpart", "--random", "--check", "--json")
    assert asked.exit_code == 1
    assert json.loads(asked.stdout)["check"]["largest_difference"] == 0.25


@pytest.mark.parametrize(("problem", "code"), [(MismatchError("differs"), 1), (ExecutionError("failed"), 2)])
def test_a_run_that_fails_is_a_message(fake_run: FakeRun, problem: BaseException, code: int) -> None:
    fake_run.outcome = problem
    result = invoke("run", "m.hetpart", "--random")
    assert (result.exit_code, result.stdout) == (code, "")
    assert f"error: {problem}" in result.stderr


def test_hardware_lists_every_profile() -> None:
    printed = invoke("hardware").stdout
    content = json.loads(invoke("hardware", "--json").stdout)
    names = {profile["name"] for profile in content["profiles"]}
    assert {"l4", "t4", "h100-sxm", "h200", "a100-80", "rtx-4090", "epyc-genoa", "xeon-spr", "emulated"} <= names
    assert all(f"  {name} " in printed for name in names)
    assert content["default"]["devices"][0]["name"] == "cpu"


def test_hardware_shows_a_profile_with_its_sources() -> None:
    assert "NVIDIA L4 datasheet" in invoke("hardware", "l4").stdout
    content = json.loads(invoke("hardware", "H100", "--json").stdout)
    assert content["profile"]["name"] == "h100-sxm"


def test_hardware_shows_a_machine() -> None:
    assert "cpu     cuda:0" in invoke("hardware", "l4+epyc").stdout
    content = json.loads(invoke("hardware", "l4+epyc", "--json").stdout)
    assert [device["name"] for device in content["machine"]["devices"]] == ["cpu", "cuda:0"]


def test_an_unknown_hardware_is_exit_code_2() -> None:
    result = invoke("hardware", "l5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: near: l4" in result.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("pci4", "hint: near: pcie4"),
        ("h10", "hint: near: h100"),
        ("xeno", "hint: near: xeon"),
        ("nope", "no hardware profile is called 'nope'"),
        ("l4+xeno", "near: xeon"),
        ("nosuch+epyc", "known: a10, a100-40, a100-80"),
    ],
)
def test_hardware_names_what_is_near(asked: str, said: str) -> None:
    result = invoke("hardware", asked)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "`hetpart hardware` lists all" in " ".join(result.stderr.split())


def run_process(*args: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hetpart", *args]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding=encoding, check=False, env=environment)


def test_the_module_runs_as_the_command_does() -> None:
    done = run_process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hetpart, version 0.1.0\n", "")


def test_a_standard_output_of_few_characters_still_gets_the_report(bundle: Path) -> None:
    done = run_process("report", str(bundle), encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "602 µs" in done.stdout
    assert r"cpu \u2192 cuda:0" in done.stdout


@pytest.mark.parametrize("command", ["--help", "report {bundle}", "report {bundle} --json", "hardware"])
def test_a_full_disk_behind_standard_output_is_told(bundle: Path, command: str) -> None:
    line = f"{sys.executable} -m hetpart {command.format(bundle=bundle)} > /dev/full"
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: No space left on device\nhint: free some space")


def test_a_reader_that_leaves_early_sees_no_error(bundle: Path) -> None:
    reader = subprocess.run(
        f"{sys.executable} -m hetpart report {bundle} --json | head -c 10", shell=True, cwd=ROOT, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (len(reader.stdout), reader.stderr) == (10, "")


def test_help_names_every_rule_that_places() -> None:
    text = "".join(CliRunner().invoke(main, ["partition", "--help"]).output.split())
    assert all(name in text for name in ("optimal", "random:SEED", *BASELINES))
