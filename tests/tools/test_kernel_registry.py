"""The tool that writes kernels.json: against the installed ONNX Runtime, and on a dump recorded of it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetpart.errors import HetpartError
from tools.kernel_registry import __main__ as tool
from tools.kernel_registry import stubs
from tools.kernel_registry.ask import CUDA_PROVIDER, ROOT
from tools.kernel_registry.facts import Row, in_words, to_json
from tools.kernel_registry.merge import merge, united
from tools.kernel_registry.records import Dump, Probed

RECORDED = Path(__file__).parent / "dump.json"
"""What get_all_opkernel_def() and the schemas of ONNX Runtime 1.31.1 and onnx 1.23.2 say of eight operators."""
PROBED = """
onnxruntime = "1.31.1"
[host_inputs."com.microsoft"]
DequantizeWithOrder = [1]
[host_outputs."ai.onnx"]
Size = [0]
[bodies."com.microsoft"]
QuickGelu = "float64"
[expands."ai.onnx".Mish]
18 = "float32 float16 float64"
22 = "any"
"""
ANY_TENSOR = "bool float16 float32 float64 int16 int32 int64 int8"
EXPECTED = f"""\
onnxruntime: 1.31.1
onnx: 1.23.2
probed: 1.31.1
opsets: {{'': 26, 'ai.onnx.ml': 5, 'com.microsoft': 1}}
ai.onnx.ArgMax since [1, 11, 12, 13]
ai.onnx.ArgMax cpu 1..10 0: float32 float64 int32 int64 int8 uint8
ai.onnx.ArgMax cpu 11..12 0: float32 float64 int32 int64 int8 uint8
ai.onnx.ArgMax cpu 13.. 0: float32 float64 int32 int64 int8 uint8
ai.onnx.ArgMax cuda 1..11 0: float16 float32 float64
ai.onnx.ArgMax cuda 12..12 0: float16 float32 float64
ai.onnx.ArgMax cuda 13.. 0: float16 float32 float64
ai.onnx.Mish since [18, 22]
ai.onnx.Mish function 1
ai.onnx.Mish expands 18..21 0: float16 float32 float64
ai.onnx.Mish expands 22..2147483647
ai.onnx.SequenceAt since [11]
ai.onnx.SequenceAt cpu 11.. 1: int32 int64; o0: bfloat16 {ANY_TENSOR} string uint16 uint32 uint64 uint8
com.microsoft.BiasSplitGelu since [1]
com.microsoft.BiasSplitGelu cuda 1.. 0: float16 float32
com.microsoft.DequantizeWithOrder since [1]
com.microsoft.DequantizeWithOrder cuda 1.. 0: int8; 1: float32; o0: float16 float32
com.microsoft.DequantizeWithOrder host_inputs [1]
com.microsoft.QuickGelu since [1]
com.microsoft.QuickGelu cpu 1.. 0: float32 float64
com.microsoft.QuickGelu takes 0: bfloat16 float16 float32 float64
""".splitlines()
"""Of ``Size`` more below: it has many versions."""


def recorded() -> Dump:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Dump)


def probed(text: str = PROBED) -> Probed:
    return msgspec.toml.decode(text, type=Probed)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The tool asks the recorded dump; the answer is where it writes by default."""
    file, answer = tmp_path / "probed.toml", tmp_path / "kernels.json"
    file.write_text(PROBED)
    monkeypatch.setattr(tool, "ask", lambda _say: recorded())
    monkeypatch.setattr(tool, "PROBED_FILE", file)
    assert tool.main(["-o", str(answer)]) == 0
    return answer


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.kernel_registry", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}
    )


def _expected(*, dies: bool) -> tuple[int, str]:
    """Exit code of ``--check`` here, and what it says: it needs a wheel with CUDA, and gcc where the call dies."""
    committed = json.loads(tool.DATA_FILE.read_text())
    if not (Path(onnxruntime.__file__).parent / "capi" / CUDA_PROVIDER).exists():
        return 2, "this ONNX Runtime knows no CUDA kernels"
    if dies and shutil.which("gcc") is None:
        return 2, "need gcc, not found"
    if [committed["onnxruntime"], committed["onnx"]] != [onnxruntime.__version__, version("onnx")]:
        return 1, "+onnx"
    return 0, "is what this ONNX Runtime says"


def test_the_data_file_is_what_the_installed_onnx_runtime_says() -> None:
    answer = run("--check")
    code, said = _expected(dies="building stubs" in answer.stderr)
    assert answer.returncode == code, answer
    assert said in answer.stdout + answer.stderr


def test_the_data_file_speaks_of_the_onnx_runtime_that_was_probed() -> None:
    committed = json.loads(tool.DATA_FILE.read_text())
    assert committed["probed"] == probed(tool.PROBED_FILE.read_text()).onnxruntime


def test_a_recorded_dump_becomes_these_facts() -> None:
    lines = in_words(to_json(merge(recorded(), probed())))
    assert [line for line in lines if not line.startswith("ai.onnx.Size ")] == EXPECTED
    assert "ai.onnx.Size host_outputs [0]" in lines
    # Its CUDA kernel's registration takes any tensor, but none of strings lies there.
    assert f"ai.onnx.Size cuda 1..12 0: bfloat16 {ANY_TENSOR} uint16 uint32 uint64 uint8; o0: int64" in lines


def test_the_order_of_a_dump_does_not_matter() -> None:
    dump = recorded()
    turned = Dump(
        dump.onnxruntime, dump.onnx, dump.opsets, dump.kernels[::-1], dump.schemas[::-1], dump.standards[::-1]
    )
    assert to_json(merge(turned, probed())) == to_json(merge(dump, probed()))


def test_a_constraint_of_no_operand_is_told(offline: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(tool, "ask", lambda _say: _without_outputs(recorded()))
    assert tool.main(["-o", str(offline)]) == 0
    assert "left out, no operand of the schema has it: CUDAExecutionProvider: com.microsoft.DequantizeWithOrder F" in (
        capsys.readouterr().err
    )


def _without_outputs(dump: Dump) -> Dump:
    data = msgspec.to_builtins(dump)
    for schema in data["schemas"]:
        schema["outputs"] = []
    return msgspec.convert(data, Dump)


@pytest.mark.parametrize(
    ("kind", "entry", "lacking"),
    [
        ("host_inputs", '"ai.onnx".Mish = [0]', "host_inputs of ai.onnx.Mish, which has no CUDA kernel"),
        ("host_inputs", '"ai.onnx".Nonsense = [0]', "host_inputs of ai.onnx.Nonsense, which has no CUDA kernel"),
        ("host_outputs", '"com.microsoft".Size = [0]', "com.microsoft.Size, which has no CUDA kernel"),
        ("bodies", '"ai.onnx".Mish = "float64"', "bodies of ai.onnx.Mish, which has no CPU kernel"),
        ("expands", '"ai.onnx".ArgMax.13 = "any"', "expands of ai.onnx.ArgMax, which has no function body"),
    ],
)
def test_a_probed_fact_of_what_is_not_there_is_an_error(kind: str, entry: str, lacking: str) -> None:
    sections = {"host_inputs": "", "host_outputs": "", "bodies": "", "expands": ""} | {kind: entry}
    text = "\n".join(f"[{name}]\n{content}" for name, content in sections.items())
    with pytest.raises(HetpartError, match=lacking):
        merge(recorded(), probed(f'onnxruntime = "1.31.1"\n{text}'))


@st.composite
def _kernels(draw: st.DrawFn) -> list[Row]:
    dtypes = st.sets(st.sampled_from(["float16", "float32", "int64"]), min_size=1).map(lambda s: tuple(sorted(s)))
    slots = st.fixed_dictionaries({"0": dtypes}, optional={"1": dtypes, "o0": dtypes})
    row = st.builds(Row, st.sampled_from([1, 13]), st.sampled_from([0, 13]), slots)
    return draw(st.lists(row, max_size=6))


def _accepted(rows: tuple[Row, ...] | list[Row]) -> set[object]:
    """Every single choice of dtypes that a kernel takes."""
    return {
        (row.first, row.last, tuple(zip(row.slots, choice, strict=True)))
        for row in rows
        for choice in itertools.product(*row.slots.values())
    }


@given(_kernels())
def test_united_kernels_take_exactly_what_the_single_ones_take(rows: list[Row]) -> None:
    fewer = united(rows)
    assert _accepted(fewer) == _accepted(rows)
    assert len(fewer) <= len(rows)
    assert united(fewer[::-1]) == fewer == united(rows[::-1])


def test_what_was_written_passes_the_check_and_what_was_changed_is_printed(offline: Path, capsys) -> None:
    text = offline.read_text()
    assert tool.main(["--check", "-o", str(offline)]) == 0
    offline.write_text(text.replace('"host_inputs":[1]', '"host_inputs":[2]').replace('[1,10,{"0"', '[1,9,{"0"', 1))
    capsys.readouterr()
    assert tool.main(["--check", "-o", str(offline)]) == 1
    changed = [line for line in capsys.readouterr().out.splitlines() if line[:3] not in {"---", "+++"}]
    types = "0: float32 float64 int32 int64 int8 uint8"
    assert [line for line in changed if line[0] in "+-"] == [
        f"-ai.onnx.ArgMax cpu 1..9 {types}",
        f"+ai.onnx.ArgMax cpu 1..10 {types}",
        "-com.microsoft.DequantizeWithOrder host_inputs [2]",
        "+com.microsoft.DequantizeWithOrder host_inputs [1]",
    ]
    offline.write_text(text + "\n")
    assert tool.main(["--check", "-o", str(offline)]) == 1
    assert "the same facts in other words" in capsys.readouterr().out
    assert offline.read_text() == text + "\n"


@pytest.mark.parametrize(("content", "said"), [("{", "is no JSON"), (None, "No such file")])
def test_a_file_to_compare_with_that_is_none(offline: Path, content: str | None, said: str, capsys) -> None:
    offline.unlink()
    if content is not None:
        offline.write_text(content)
    assert tool.main(["--check", "-o", str(offline)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error


def test_probed_facts_of_another_onnx_runtime_are_told(offline: Path, capsys) -> None:
    tool.PROBED_FILE.write_text(PROBED.replace("1.31.1", "1.30.0"))
    assert tool.main(["--check", "-o", str(offline)]) == 1
    said = capsys.readouterr()
    assert "probed.toml speaks of ONNX Runtime 1.30.0, the kernels are those of 1.31.1" in said.err
    assert "+probed: 1.30.0" in said.out


@pytest.mark.parametrize("lacking", ["gcc", "nm", "readelf"])
def test_without_a_compiler_there_is_one_clear_error(lacking: str, tmp_path: Path, monkeypatch) -> None:
    for name in {"gcc", "nm", "readelf"} - {lacking}:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HetpartError, match=f"need {lacking}, not found") as refused:
        stubs.build([], tmp_path)
    assert "apt install gcc" in refused.value.hint


@pytest.fixture
def dying(tmp_path: Path) -> Path:
    """The folder of an ``onnxruntime`` that dies when it is imported, stubs or not."""
    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    (capi.parent / "__init__.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    shutil.copy(next(Path(numpy.__file__).parent.rglob("*.so")), capi / CUDA_PROVIDER)
    return tmp_path


def test_where_onnx_runtime_dies_and_nothing_builds_stubs_that_is_all_it_says(dying: Path) -> None:
    answer = run("--check", PYTHONPATH=str(dying), PATH=str(dying))
    assert (answer.returncode, answer.stdout) == (2, "")
    notice, error, hint = answer.stderr.splitlines()
    assert "dies of signal 9" in notice
    assert "need gcc, not found" in error
    assert hint.strip().startswith("hint: install gcc")


def test_where_stubs_do_not_help_the_error_says_so(dying: Path) -> None:
    expected = "dies of signal 9 listing its kernels even with stubs" if shutil.which("gcc") else "need gcc, not found"
    answer = run("--check", PYTHONPATH=str(dying))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert expected in answer.stderr


def test_a_wheel_without_cuda_is_refused(dying: Path) -> None:
    (dying / "onnxruntime" / "capi" / CUDA_PROVIDER).unlink()
    answer = run(PYTHONPATH=str(dying))
    assert answer.returncode == 2
    assert "this ONNX Runtime knows no CUDA kernels\n  hint: install onnxruntime-gpu" in answer.stderr
