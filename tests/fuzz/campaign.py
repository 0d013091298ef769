"""Run the workers, however often they die, and gather what went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import hetpart
from tests.fuzz.worker import MOST_GROWTH

ROOT = Path(__file__).parent.parent.parent
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
_SHOWN = 2000


@dataclass
class Campaign:
    """How many mutants ended how, and every one that did not end as it should."""

    endings: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, mutant: dict[str, object], outcome: str, grown: int = 0) -> None:
        known = outcome == "plan" or issubclass(getattr(hetpart, outcome, type(None)), hetpart.HetpartError)
        self.endings[outcome if known else "finding"] += 1
        if not known:
            self.findings.append(f"mutant {mutant['number']} of {mutant['source']}: {outcome[-_SHOWN:]}")
        if grown > MOST_GROWTH:
            self.findings.append(f"mutant {mutant['number']} of {mutant['source']} took {grown:,} bytes of memory")


def run(folder: Path, first: int, count: int) -> Campaign:
    """Try mutants ``first`` to ``first + count`` of the models in ``folder``; a worker that dies is replaced."""
    campaign = Campaign()
    end = first + count
    while first < end:
        first = _run_worker(campaign, folder, first, end)
    return campaign


def _run_worker(campaign: Campaign, folder: Path, first: int, end: int) -> int:
    """The number of the mutant to go on with."""
    command = [sys.executable, "-m", "tests.fuzz.worker", str(folder), str(first), str(end - first)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False, env=os.environ | _ONE_THREAD
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    for mutant, ending in zip(lines[::2], lines[1::2], strict=False):
        campaign.add(mutant, **ending)
    if len(lines) % 2:
        campaign.add(lines[-1], f"died with {done.returncode}: {done.stderr[-_SHOWN:]}")
        return lines[-1]["number"] + 1
    assert done.returncode == 0, done.stderr
    return end
