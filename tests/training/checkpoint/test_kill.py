from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch

from hetpart.training.checkpoint import Part, load, save

WRITERS = """
import os, sys, torch
from hetpart.training.checkpoint import Part, load, save
torch.set_num_threads(1)

def tell(line):
    sys.stdout.write(line + "\\n")  # in one piece: parent and child write to one pipe
    sys.stdout.flush()

def write(folder, parts, step):
    while True:
        step += 1
        for index in range(parts):
            tensors = {f"{index}.{i}": torch.full((50_000,), float(step)) for i in range(4)}
            save(folder, step % 3, tensors, {"step": step}, part=Part(index + 1, parts), keep_max=2)
        tell(str(step))

for line in sys.stdin:
    folder, parts, step = line.split()
    child = os.fork()
    if not child:
        write(folder, int(parts), int(step))
    tell(f"writer {child}")
    os.waitpid(child, 0)
    tell("dead")
"""
"""Importing PyTorch takes seconds: one process imports it, and forks a writer for every line it reads."""
KILLS = 25


@pytest.fixture
def writers() -> Iterator[subprocess.Popen[str]]:
    home = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": home},
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def killed_writer(
    writers: subprocess.Popen[str], folder: Path, parts: int, step: int, *, steps: int, seconds: float
) -> int:
    """The last step that a writer had saved when it was killed; ``step`` where it came to none.

    It is killed some ``seconds`` after it has saved so many ``steps``: how long those take is the machine's.
    """
    assert writers.stdin is not None
    assert writers.stdout is not None
    writers.stdin.write(f"{folder} {parts} {step}\n")
    writers.stdin.flush()
    writer = int(writers.stdout.readline().removeprefix("writer "))
    for saved in itertools.count():
        if saved == steps:
            time.sleep(seconds)
            os.kill(writer, signal.SIGKILL)
        line = writers.stdout.readline()
        if line == "dead\n":
            break
        step = int(line)
    return step


@pytest.mark.parametrize("parts", [1, 2])
def test_a_kill_at_any_moment_leaves_the_last_good_checkpoint(
    tmp_path: Path, writers: subprocess.Popen[str], parts: int
) -> None:
    """Steps take turns on three names, so that whole checkpoints are replaced and removed while the kill comes."""
    random, done, torn = Random(parts), 0, 0
    for _ in range(KILLS):
        done = killed_writer(
            writers, tmp_path, parts, done, steps=random.randrange(3), seconds=random.uniform(0.0, 0.05)
        )
        torn += bool(list(tmp_path.glob("*.incomplete")) or list(tmp_path.glob("*.replaced")))
        if not done and not list(tmp_path.glob("step-????????")):
            continue
        checkpoint = load(tmp_path)
        found = {float(number) for name in checkpoint.names for number in checkpoint.tensor(name).unique()}
        assert len(checkpoint.names) == 4 * parts
        assert found == {float(checkpoint.metadata["step"])}
        assert checkpoint.metadata["step"] >= done
        done = checkpoint.metadata["step"]
    assert done
    assert torn  # some kills came in the middle of a save
    for step in range(3):
        for part in (Part(index + 1, parts) for index in range(parts)):
            save(tmp_path, step, {f"{part.index}": torch.ones(1)}, part=part, keep_max=2)
    files = ["order", *(Part(index + 1, parts).file_name for index in range(parts))]
    left = {home.name: sorted(file.name for file in home.iterdir()) for home in tmp_path.glob("step-*")}
    assert left == {"step-00000001": files, "step-00000002": files}  # and nothing of all that was killed
