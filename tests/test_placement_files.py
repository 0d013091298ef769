"""Files of placement graphs: what is odd in them, and what is refused."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from itertools import combinations
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import placement_quality
from benchmarks.placement_files import MOST_UNITS, GraphFile, Node, UnreadableGraphError, whole_sizes
from benchmarks.placement_graphs import PlacementGraph
from benchmarks.placement_quality import FRACTIONS
from hetpart.partitioner.search.solve import solve

if TYPE_CHECKING:
    from pathlib import Path


def node(key: Any, **more: Any) -> dict[str, Any]:
    known = {"id": key, "cpuLatency": 10.0, "fpgaLatency": 1.0, "size": 100, "supportedOnFpga": 1, "colorClass": None}
    return {**known, **more}


def chain(*sizes: float, host: float = 10.0) -> dict[str, Any]:
    """Every node takes longer on the host than the one before."""
    nodes = [node(place, cpuLatency=host * (place + 1), size=size) for place, size in enumerate(sizes)]
    return {"nodes": nodes, "edges": [edge(place - 1, place) for place in range(1, len(sizes))]}


def edge(source: Any, target: Any, cost: float = 0.5) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "cost": cost}


def write(folder: Path, content: object) -> Path:
    path = folder / "odd.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def best_of(content: dict[str, Any], fraction: float) -> float:
    """Of all choices of nodes for the accelerator, sizes as written."""
    nodes, sizes = content["nodes"], [Fraction(repr(entry["size"])) for entry in content["nodes"]]
    budget, count = Fraction(fraction) * sum(sizes), len(nodes)
    choices = (set(chosen) for many in range(count + 1) for chosen in combinations(range(count), many))
    return min(
        sum(entry["fpgaLatency" if place in there else "cpuLatency"] for place, entry in enumerate(nodes))
        + sum(sent["cost"] for sent in content["edges"] if (sent["sourceId"] in there) != (sent["destId"] in there))
        for there in choices
        if sum(sizes[place] for place in there) <= budget
    )


ODD_SIZES = {
    "parts of a megabyte": [0.4, 0.8, 1.2000000000000002, 1.6, 2.0, 2.4],
    "bytes in binary megabytes": [57633766 / 2**20, 1 / 2**20, 3.5, 60432384 / 2**20, 0.25, 12345678 / 2**20],
    "terabytes and some bytes": [10**12 + place for place in range(6)],
    "too many digits": [10**15 + 0.1, 1e-9, 7.25, 10**15 + 0.3, 10**15 + 0.5, 10**14],
    "more than 64 bits": [10**19, 2 * 10**19, 3 * 10**19, 10**19, 10**20, 10**19],
    "no bytes": [0, 0.0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("sizes", ODD_SIZES.values(), ids=list(ODD_SIZES))
def test_odd_sizes_count_as_written(tmp_path: Path, sizes: list[float], fraction: float) -> None:
    content = chain(*sizes)
    found = solve(PlacementGraph.read(write(tmp_path, content)).problem(fraction))
    assert found.cost == pytest.approx(best_of(content, fraction))
    assert found.gap <= 1e-3


def test_sizes_have_a_unit_that_leaves_them_whole() -> None:
    def whole(*sizes: float) -> list[int]:
        return whole_sizes([Node(0, 1.0, 1.0, Fraction(repr(size)), None) for size in sizes])

    assert whole(50, 40.0, 7) == [50, 40, 7]
    assert whole(0.4, 1.25) == [8, 25]
    assert whole(1 / 2**20, 2.0) == [1, 2**21]
    assert sum(whole(1 / 3, 1e9, 1e-9)) == pytest.approx(MOST_UNITS, abs=3)
    assert whole() == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1, 2], "no list of objects 'nodes'"),
        ({"nodes": [node(0)]}, "no list of objects 'edges'"),
        ({"nodes": [1], "edges": []}, "no list of objects 'nodes'"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ({"nodes": [node(1), node(2), node(1, size=7)], "edges": []}, "1 of 3 nodes repeat an id, as 1"),
        ({"nodes": [node([1])], "edges": []}, "node: id is no number or text: [1]"),
        ({"nodes": [node(0)], "edges": [edge(0, 9)]}, "1 ends of edges are ids of no node, as 9"),
        ({"nodes": [node(0), node(1)], "edges": [edge(0, 1), edge(1, 0)]}, "edges form a cycle: "),
        ({"nodes": [node(0)], "edges": [edge(0, 0)]}, "edges form a cycle: 0 -> 0"),
        ({"nodes": [node(0)], "edges": [{"sourceId": 0, "destId": 0}]}, "edge 0 -> 0 has no cost"),
        ({"nodes": [node(0), node(1)], "edges": [edge(0, 1, nan)]}, "edge 0 -> 1: cost is nan"),
        ({"nodes": [{"id": 3}], "edges": []}, "node 3 has no supportedOnFpga"),
        ({"nodes": [node("a", size=None)], "edges": []}, "node 'a' has no size"),
        ({"nodes": [node(0, size=inf)], "edges": []}, "node 0: size is inf"),
        ({"nodes": [node(0, size=-1.5)], "edges": []}, "node 0: size is -1.5, which is not zero or more"),
        ({"nodes": [node(0, cpuLatency=-5.0)], "edges": []}, "node 0: cpuLatency is -5.0, which is not zero or more"),
        ({"nodes": [node(0, cpuLatency="5")], "edges": []}, "node 0: cpuLatency is no number: '5'"),
        ({"nodes": [node(0, cpuLatency=inf, supportedOnFpga=0)], "edges": []}, "node 0 may run on neither device"),
        (
            {"nodes": [node(0, cpuLatency=inf, colorClass=4), node(1, fpgaLatency=inf, colorClass=4)], "edges": []},
            "colorClass 4 may run on neither device",
        ),
    ],
)
def test_what_is_no_placement_graph_is_refused(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(UnreadableGraphError, match=r"^odd\.json: ") as refused:
        GraphFile.read(write(tmp_path, content))
    assert said in refused.value.message


def test_the_command_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [1, 2])
    monkeypatch.setattr(sys, "argv", ["placement_quality", "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        placement_quality.main()
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", "placement_quality: odd.json: no list of objects 'nodes'\n")
