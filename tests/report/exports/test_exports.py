"""Every export beside a reader that we did not write, and with names that try to be more than names."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import networkx as nx
import onnx
import onnxruntime
import pydot
import pytest
from click.testing import CliRunner, Result

from hetpart.cli import main
from hetpart.plan.edges import op_graph, partition_edges
from hetpart.plan.emit import whole_model
from hetpart.plan.io import read_plan
from hetpart.runtime.random_feeds import random_feeds
from tests.report.exports import planned
from tests.runtime.models import assert_same, plain

ROOT = Path(__file__).parents[3]
FORMATS = ("csv", "graphviz", "graphviz-ops", "json", "netron", "perfetto")
PARTITIONED = planned.partitioned()
PLAN = PARTITIONED.plan
OPS = [op.name for op in PARTITIONED.graph.ops]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned.bundle(tmp_path_factory.mktemp("bundles"))


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *(str(arg) for arg in args)])


@pytest.fixture
def exported(bundle: Path) -> Callable[[str], str]:
    def text(form: str) -> str:
        result = invoke(bundle, "--format", form, "-o", "-")
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    return text


def test_the_model_under_test_is_cut_and_crosses_devices() -> None:
    assert len(PLAN.partitions) >= 4
    assert {(copy.source, copy.target) for copy in PLAN.transfers} == {("cpu", "cuda:0"), ("cuda:0", "cpu")}
    assert planned.HOSTILE in OPS


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_holds_what_standard_output_shows(bundle: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "out"
    result = invoke(bundle, "--format", form, "-o", file)
    assert result.stdout == f"wrote {file}\n"
    assert file.read_text() == invoke(bundle, "--format", form, "-o", "-").stdout
    again = invoke(bundle, "--format", form, "-o", file, "--json")
    assert json.loads(again.stdout)["files"] == [str(file)]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("form", FORMATS)
def test_no_control_character_reaches_a_terminal(exported: Callable[[str], str], form: str) -> None:
    assert all(character.isprintable() or character == "\n" for character in exported(form))


def test_csv_has_a_row_for_every_op(exported: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(exported("csv"))))
    assert [row["op"] for row in rows] == OPS
    by_device = {device: sum(float(row["seconds"]) for row in rows if row["device"] == device)
                 for device in ("cpu", "cuda:0")}  # fmt: skip
    assert by_device == pytest.approx({use.device: use.seconds for use in PLAN.devices})


def test_json_is_the_plan_and_obeys_its_published_schema(exported: Callable[[str], str]) -> None:
    text = exported("json")
    jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "plan.schema.json").read_text())).validate(
        json.loads(text)
    )
    assert read_plan(text.encode(), "stdout").decisions == PLAN.decisions


def dot(text: str) -> pydot.Dot:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pydot's own calls of pyparsing
        (graph,) = pydot.graph_from_dot_data(text) or ()
    return graph


def test_the_partition_graph_is_dot_and_acyclic(exported: Callable[[str], str]) -> None:
    graph = dot(exported("graphviz"))
    boxes = {node.get_name(): node for node in graph.get_nodes() if node.get_name().startswith("p")}
    assert len(boxes) == len(PLAN.partitions)
    for number, part in enumerate(PLAN.partitions):
        assert f"#{part.id} on {part.device}" in boxes[f"p{number}"].get("label")
    drawn = nx.DiGraph((edge.get_source(), edge.get_destination()) for edge in graph.get_edges())
    assert nx.is_directed_acyclic_graph(drawn)
    assert set(drawn.edges) == {(f"p{edge.source}", f"p{edge.target}") for edge in partition_edges(PLAN)}
    dashed = [edge for edge in graph.get_edges() if edge.get("style") == "dashed"]
    devices = [PLAN.partitions[int(end.removeprefix("p"))].device for edge in dashed
               for end in (edge.get_source(), edge.get_destination())]  # fmt: skip
    assert all(first != second for first, second in zip(devices[::2], devices[1::2], strict=True))
    assert dashed


def test_the_op_graph_is_dot_with_every_op_and_edge(exported: Callable[[str], str]) -> None:
    graph = dot(exported("graphviz-ops"))
    clusters = graph.get_subgraphs()
    assert len(clusters) == len(PLAN.partitions)
    boxes = {node.get_name(): node.get("label") for cluster in clusters for node in cluster.get_nodes()}
    assert len(boxes) == len(OPS)
    expected = nx.DiGraph(PARTITIONED.graph.to_networkx()).number_of_edges()
    assert len({(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()}) == expected
    hostile = next(label for label in boxes.values() if "script" in label)
    assert hostile.startswith('"MatMul\\na\\"b\\\\n\\\\N</script>{x|y}<i>\\n')


def test_slices_of_the_trace_nest_on_every_track_and_are_the_run(exported: Callable[[str], str]) -> None:
    events = json.loads(exported("perfetto"))["traceEvents"]
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start, seconds = round(1e3 * event["ts"]), round(1e3 * event["dur"])  # whole nanoseconds, as Perfetto has
            tracks[event["pid"], event["tid"]].append((start, start + seconds))
    assert sum(map(len, tracks.values())) == len(PLAN.partitions) + len(PLAN.transfers)
    for slices in tracks.values():
        for (_, end), (start, _) in zip(sorted(slices), sorted(slices)[1:], strict=False):
            assert end <= start
    last = max(end for slices in tracks.values() for _, end in slices)
    assert last == pytest.approx(1e9 * PLAN.prediction.seconds, abs=1)


def test_every_event_of_the_trace_is_on_a_named_track_and_arrows_have_two_ends(exported: Callable[[str], str]) -> None:
    events = json.loads(exported("perfetto"))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert set(names.values()) == {"cpu", "cuda:0", "cpu->cuda:0", "cuda:0->cpu"}
    assert {event["tid"] for event in events if event["ph"] in "Xsf"} <= set(names)
    leaving, arriving = ({event["id"]: event["ts"] for event in events if event["ph"] == phase} for phase in "sf")
    assert leaving.keys() == arriving.keys() != set()
    assert all(leaving[number] <= arriving[number] for number in leaving)
    peaks = {use.device: use.peak_bytes for use in PLAN.devices}
    for event in (event for event in events if event["ph"] == "C"):
        assert sum(event["args"].values()) <= peaks[event["name"].removeprefix("bytes in use, ")]


def test_netron_finds_every_node_of_the_attachment_once(exported: Callable[[str], str]) -> None:
    content = json.loads(exported("netron"))
    assert content["signature"] == "netron:attachment"
    first_lines = {node.name.split("\n")[0] for node in whole_model(PARTITIONED.bundle()).graph.node}
    for group in ("metadata", "metrics"):
        entries = [(entry["kind"], entry["target"], entry["name"]) for entry in content[group]]
        assert len(set(entries)) == len(entries)
        assert {target for kind, target, _ in entries if kind == "node"} == set(OPS) <= first_lines
        assert {target for kind, target, _ in entries if kind == "model"} <= {""}
    devices = {entry["target"]: entry["value"] for entry in content["metadata"] if entry["name"] == "hetpart.device"}
    assert devices == {decision.op: decision.device for decision in PLAN.decisions}


VALUE = {"type": ["number", "string"]}
RESULT = {"type": "object", "properties": {"value": VALUE, "bgColor": {"type": "string"}}, "required": ["value"],
          "additionalProperties": False}  # fmt: skip
STOP = {"type": "object", "properties": {"stop": {"type": "number"}, "bgColor": {"type": "string"}},
        "required": ["stop"], "additionalProperties": False}  # fmt: skip
NODE_DATA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "results": {"type": "object", "additionalProperties": RESULT},
            "gradient": {"type": "array", "items": STOP, "minItems": 2},
        },
        "required": ["results"],
        "additionalProperties": False,
    },
}
"""``node_data_builder.py`` of Model Explorer."""
EDGE = {key: {"type": "string"} for key in ("sourceNodeId", "targetNodeId", "label")}
OVERLAY = {"name": {"type": "string"}, "edgeColor": {"type": "string"}, "edgeWidth": {"type": "number"}}
OVERLAYS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"const": "edge_overlays"},
        "name": {"type": "string"},
        "overlays": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": OVERLAY
                | {"edges": {"type": "array", "items": {"type": "object", "properties": EDGE, "required": list(EDGE)}}},
                "required": ["name", "edges", "edgeColor"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["type", "name", "overlays"],
    "additionalProperties": False,
}
"""``edge_overlays.ts`` of Model Explorer."""


def test_model_explorer_gets_data_of_every_node_and_the_copies_as_edges(bundle: Path, tmp_path: Path) -> None:
    result = invoke(bundle, "--format", "model-explorer", "-o", tmp_path / "explorer", "--json")
    files = {Path(file).name: json.loads(Path(file).read_text()) for file in json.loads(result.stdout)["files"]}
    assert set(files) == {"device.json", "seconds.json", "bytes.json", "copies.json"}
    for name in ("device.json", "seconds.json", "bytes.json"):
        jsonschema.validate(files[name], NODE_DATA)
        assert list(files[name]) == ["net"]
        assert list(files[name]["net"]["results"]) == OPS
    jsonschema.validate(files["copies.json"], OVERLAYS)
    devices = {op: result["value"] for op, result in files["device.json"]["net"]["results"].items()}
    found = {
        (edge["sourceNodeId"], edge["targetNodeId"])
        for overlay in files["copies.json"]["overlays"]
        for edge in overlay["edges"]
        if f"{devices[edge['sourceNodeId']]} → {devices[edge['targetNodeId']]}" == overlay["name"]
    }
    crossing = {(a, b) for a, b in PARTITIONED.graph.to_networkx().edges() if devices[a] != devices[b]}
    assert found == crossing != set()
    labels = [edge["label"] for overlay in files["copies.json"]["overlays"] for edge in overlay["edges"]]
    assert all(label.isascii() for label in labels)  # on another letter its renderer throws, and draws no overlay
    assert any(label.endswith(" us") for label in labels)


def test_ops_of_the_bundle_are_connected_as_those_of_the_model() -> None:
    view = PARTITIONED.graph.to_networkx()
    assert {(edge.source, edge.target, edge.value) for edge in op_graph(PARTITIONED.bundle().models).edges} >= {
        (source, target, value) for source, target, value in view.edges(data="value")
    }


def test_the_model_says_where_its_nodes_run_and_still_checks_and_runs() -> None:
    whole = whole_model(PARTITIONED.bundle())
    onnx.checker.check_model(whole, full_check=True)
    said = {node.name: {entry.key: entry.value for entry in node.metadata_props} for node in whole.graph.node}
    for decision in PLAN.decisions:
        assert said[decision.op]["hetpart.device"] == decision.device
        assert float(said[decision.op]["hetpart.seconds"]) == pytest.approx(decision.seconds[decision.device], rel=1e-5)
    feeds = random_feeds(PLAN.inputs, 1)
    expected = plain(PARTITIONED.imported.proto).run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert_same(session.run(None, feeds), expected)


@pytest.mark.parametrize("form", ["graphviz-ops", "model-explorer"])
def test_a_plan_file_alone_does_not_say_what_is_connected(bundle: Path, tmp_path: Path, form: str) -> None:
    result = invoke(bundle / "plan.json", "--format", form, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "does not say which ops are connected" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_plan_file_alone_does_for_the_rest(bundle: Path) -> None:
    assert invoke(bundle / "plan.json", "--format", "perfetto", "-o", "-").exit_code == 0


@pytest.mark.parametrize(
    "args", [("csv", "-o", "-", "--json"), ("model-explorer", "-o", "-"), ("csv",), ("pdf", "-o", "x")]
)
def test_what_cannot_be_written_is_refused(bundle: Path, args: tuple[str, ...]) -> None:
    assert invoke(bundle, "--format", *args).exit_code == 2


def test_exports_are_the_same_every_time(bundle: Path) -> None:
    for form in FORMATS:
        assert invoke(bundle, "--format", form, "-o", "-").stdout == invoke(bundle, "--format", form, "-o", "-").stdout
