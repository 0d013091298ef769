"""Seconds and bytes of the HTML report on a model of 10,000 nodes, and how soon a browser answers its reader.

    python -m benchmarks.report_html [--nodes 10000] [--rounds 5]

The models are those of ``annotate_time``: layers that are all alike, or of which no two are. Each is placed once,
under half its footprint. ``write s`` is ``hetpart report BUNDLE --html FILE`` as a user types it, process, lint and
all; ``page s`` is the page alone, in a process that has read the plan. ``interactive ms`` is from the start of the
navigation in headless Chromium until the table of ops has its rows and answers; ``filter ms`` and ``sort ms`` are from
the event of a key to the table being drawn anew. Reach: 3 s to write, 1 MB, interactive within 1 s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.annotate_time import HARDWARE, MODELS
from benchmarks.measure import Spread, emit, machine_facts, say
from benchmarks.table import Cell, figure, print_table
from tests.browser import Page, running

REACH = {"write_seconds": 3.0, "page_bytes": 1_000_000, "interactive_seconds": 1.0}
NODES_PER_LAYER = 29
_FILTER = """(() => { const f = document.getElementById("ops-filter"), start = performance.now();
  f.value = "Softmax"; f.dispatchEvent(new Event("input")); document.body.offsetHeight;
  return performance.now() - start; })()"""
_SORT = """(() => { const start = performance.now();
  document.querySelector("#ops-table th button").click(); document.body.offsetHeight;
  return performance.now() - start; })()"""
_ROWS = "document.querySelectorAll('#ops-table tbody tr').length"


def _median(key: str, scale: float = 1.0, form: str = "{:.2f}") -> Cell:
    return lambda row: form.format(row[key].median * scale)


COLUMNS: Mapping[str, Cell] = {
    "layers": figure("model"),
    "ops": figure("ops", "{:,}"),
    "partitions": figure("partitions"),
    "write s": _median("write_seconds"),
    "write CPU s": _median("write_cpu_seconds"),
    "page s": _median("page_seconds"),
    "kB": figure("page_bytes", "{:,.0f}", 1e-3),
    "interactive ms": _median("interactive_seconds", 1e3, "{:.0f}"),
    "filter ms": _median("filter_seconds", 1e3, "{:.0f}"),
    "sort ms": _median("sort_seconds", 1e3, "{:.0f}"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    facts = machine_facts()
    with tempfile.TemporaryDirectory() as folder:
        rows = [_measure(name, Path(folder), arguments.nodes, arguments.rounds) for name in MODELS]
    print_table(COLUMNS, rows)
    emit(
        "report_html", {"machine": facts, "hardware": HARDWARE, "reach": REACH, "reached": _reached(rows), "rows": rows}
    )


def _reached(rows: list[dict[str, Any]]) -> bool:
    return all(
        row["write_seconds"].median <= REACH["write_seconds"]
        and row["page_bytes"] < REACH["page_bytes"]
        and row["interactive_seconds"].median <= REACH["interactive_seconds"]
        for row in rows
    )


def _measure(name: str, folder: Path, nodes: int, rounds: int) -> dict[str, Any]:
    say(f"report_html: placing {name}")
    bundle = _placed(name, folder, nodes)
    say(f"report_html: writing and opening {name}")
    page = folder / f"{name}.html"
    written = [_written(bundle, page, folder) for _ in range(rounds + 1)][1:]  # modules are compiled in the first
    plan, seconds = _rendered(bundle, rounds)
    return {
        "model": name,
        "ops": plan.model.ops,
        "partitions": len(plan.partitions),
        "page_bytes": page.stat().st_size,
        "write_seconds": Spread.of([wall for wall, _ in written]),
        "write_cpu_seconds": Spread.of([cpu for _, cpu in written]),
        "page_seconds": Spread.of(seconds),
        **_opened(page, rounds),
    }


def _placed(name: str, folder: Path, nodes: int) -> Path:
    import hetpart

    file = folder / f"{name}.onnx"
    file.write_bytes(MODELS[name](-(-nodes // NODES_PER_LAYER)).SerializeToString())
    whole = hetpart.partition(file, hardware=HARDWARE, placement="all-accelerator").plan.footprint_bytes
    placed = hetpart.partition(file, hardware=HARDWARE, budget=whole // 2, time_limit=30)
    return placed.save(folder / f"{name}.hetpart")


def _written(bundle: Path, page: Path, folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of the command."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    command = [sys.executable, "-m", "hetpart", "report", str(bundle), "--html", str(page)]
    before, start = os.times(), perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, after = perf_counter() - start, os.times()
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


def _rendered(bundle: Path, rounds: int) -> tuple[Any, list[float]]:
    """The plan, and processor seconds of its page."""
    from hetpart.plan.io import load_plan
    from hetpart.report.page import Evidence, render

    plan, seconds = load_plan(bundle), list[float]()
    for _ in range(rounds):
        start = process_time()
        render(Evidence(plan))
        seconds.append(process_time() - start)
    return plan, seconds


def _opened(path: Path, rounds: int) -> dict[str, Spread]:
    with running() as browser:
        page = browser.page()
        page.resize(1280)
        page.open(path)  # the browser's own start
        found = [_visit(page, path) for _ in range(rounds)]
    return {key: Spread.of([visit[key] for visit in found]) for key in found[0]}


def _visit(page: Page, path: Path) -> dict[str, float]:
    """The clock of a page starts with its navigation."""
    page.open(path)
    assert page.value(_ROWS) == 100
    answered = page.value("performance.getEntriesByType('navigation')[0].loadEventEnd")
    return {
        "interactive_seconds": answered / 1e3,
        "filter_seconds": page.value(_FILTER) / 1e3,
        "sort_seconds": page.value(_SORT) / 1e3,
    }


if __name__ == "__main__":
    main()
