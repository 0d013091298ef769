"""Files that somebody made to break a linter: one clear message or a bounded list, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from hetpart.cli import main
from hetpart.report.findings import FORMATS
from tests.runtime.models import model

NAMES = (
    "a\n::error::owned", "::error::owned", "##[add-mask]a", "\x1b[2J\x1b]0;owned\x07", "\u202egnp.exe",
    "<script>alert(1)</script>", "`id`$(id)|;&", "[x](javascript:alert(1))", "@everyone", "%0A::error::", "]]>", '"',
    "'", "\\", "a" * 10_000, "\u2028", "💥",
)  # fmt: skip
DEEPEST = 30
"""Protobuf reads a hundred messages inside each other, and a branch takes three."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments])


def named(name: str) -> onnx.ModelProto:
    """A model whose dead node, unused weight, value and graph are called so."""
    proto = model("g (float[2] x) => (float[2] y) { [a] y = Neg (x) [b] h = Abs (x) }")
    proto.graph.name = name
    proto.graph.node[1].name = name
    proto.graph.node[1].output[0] = name
    proto.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=f'File "{name}", line 9999999999')
    proto.graph.initializer.append(TensorProto(name=f"{name}w", data_type=1, dims=[1], raw_data=bytes(4)))
    return proto


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_is_text_in_every_format(name: str) -> None:
    onnx.save(named(name), "m.onnx")
    for form in FORMATS:
        answer = run("m.onnx", "--format", form, "--select", "HPG")
        assert answer.exit_code == 1, answer.output
        lines = answer.stdout.splitlines()
        assert all(line.isprintable() for line in lines)
        assert "<script>" not in answer.stdout or form in ("text", "json", "github", "sarif")
        commands = [line for line in lines if line.lstrip().startswith("::")]
        assert len(commands) == (2 if form == "github" else 0)
        assert form == "github" or "##[" not in answer.stdout


@pytest.mark.parametrize("name", ["::error::owned.onnx", "a\nb.onnx", "##[error]a.onnx", "-rf.onnx"])
def test_so_is_the_name_of_a_file(name: str) -> None:
    onnx.save(named("w"), name)
    for form in FORMATS:
        answer = run("--format", form, "--select", "dead-node", "--", name)
        assert answer.exit_code == 1, answer.output
        assert all(line.isprintable() for line in answer.stdout.splitlines())
        assert form == "github" or not any(line.lstrip().startswith("::") for line in answer.stdout.splitlines())


def chain(depth: int) -> onnx.ModelProto:
    """A branch in a branch, so many of them."""
    leaf = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["leaf"], name="n")], "g", [], [helper.make_tensor_value_info("leaf", 1, [2])]
    )
    graph = leaf
    for level in range(depth):
        node = helper.make_node("If", ["c"], [f"o{level}"], name=f"if{level}", then_branch=graph, else_branch=leaf)
        graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info(f"o{level}", 1, [2])])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", 1, [2])]
    graph.input.extend(inputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def deep(depth: int) -> bytes:
    """The same as bytes: no library writes so deep."""

    def within(field: int, content: bytes) -> bytes:
        size, length = len(content), bytearray()
        while size >= 128:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([field << 3 | 2]) + bytes(length) + bytes([size]) + content

    graph = within(2, b"g")
    for _ in range(depth):
        graph = within(1, within(4, b"If") + within(5, within(1, b"then_branch") + within(6, graph) + b"\xa0\x01\x05"))
    return b"\x08\x0a" + within(7, graph) + within(8, b"\x10\x15")


@pytest.mark.parametrize("depth", [1, DEEPEST // 2, DEEPEST])
def test_nested_branches_are_linted(depth: int) -> None:
    onnx.save(chain(depth), "m.onnx")
    answer = run("m.onnx", "--hardware", "l4+epyc", "--format", "json")
    assert answer.exit_code in (0, 1), answer.output
    assert json.loads(answer.stdout)["schema"] == "hetpart.lint"


@pytest.mark.parametrize("depth", [49, 60, 1000, 3000])
def test_what_is_nested_too_deep_is_told_in_one_message(depth: int) -> None:
    Path("m.onnx").write_bytes(deep(depth))
    answer = run("m.onnx")
    assert answer.exit_code == 2
    assert answer.stdout.startswith("m.onnx: error HPG010 illegal-graph: m.onnx of ")
    assert answer.stderr.startswith("error: m.onnx of ")
    assert answer.stderr.count("\n") == 2
    assert "nest" in answer.stderr


def test_many_unused_weights_are_a_bounded_list() -> None:
    proto = named("w")
    proto.graph.initializer.extend(
        TensorProto(name=f"w{number}", data_type=1, dims=[1], raw_data=bytes(4)) for number in range(20_000)
    )
    onnx.save(proto, "m.onnx")
    answer = run("m.onnx", "--hardware", "l4+epyc")
    assert answer.exit_code == 1
    assert "19,701 more of this kind" in answer.stdout
    assert answer.stdout.count("\n") < 400
