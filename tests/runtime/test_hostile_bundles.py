"""A bundle may come from anywhere: whatever is changed in it, it runs or is refused, and never does anything else."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetpart
from hetpart.errors import HetpartError, InvalidBundleError
from tests.runtime.models import model, placed

MIXED = model("""mixed (float[8,4] x, int64[2] shape, string[3] t) =>
(float[N,M] z, int64[2] s, float[8,4] r, int64[2,K] at, string[3] u, float[8,4] e) {
    [relu] r = Relu(x) [reshape] q = Reshape(r, shape) [shapeof] s = Shape(q) [found] at = NonZero(r) [neg] z = Neg(q)
    [id] u = Identity(t) [exp] f = Exp(r) [abs] g = Abs(f) [add] e = Add(g, f)
}""")
FEED = {"x": np.ones((8, 4), np.float32), "shape": np.array([4, 8]), "t": np.array(["a", "b", "c"])}
REPORT_ONLY = ("decisions", "baselines", "certificate", "prediction", "notes", "residencies", "machine")
MUTANTS = 300
NUMBERS = (0, -1, 1, 255, 2**31, 2**63, 2**70)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "m.hetpart"
    return placed(MIXED, ("relu", "found", "neg", "abs"), hardware="l4").save(path)


def run(bundle: Path) -> str:
    """``ok``, or the kind of refusal. Whatever else is raised is the test's failure."""
    try:
        with hetpart.Session(bundle, emulate=True, threads=1) as session:
            feed = {spec.name: FEED.get(spec.name, np.zeros(1)) for spec in session.plan.inputs}
            session.run(None, feed)
            session.get_inputs(), session.get_outputs(), session.last_copies()
    except HetpartError as refused:
        return type(refused).__name__
    return "ok"


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path:
        yield path, content
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        if path or key not in REPORT_ONLY:
            yield from places(value, (*path, key))


def mutated(value: Any, texts: list[str], rng: random.Random) -> Any:
    match value:
        case int():
            return rng.choice((*NUMBERS, value + 1, value - 1, value * 2))
        case str():
            return rng.choice(
                (rng.choice(texts), "", f"{value}x", "../x", "static", "dynamic", "opaque", "int4", "string")
            )
        case list():
            return rng.choice((value[1:], value[:-1], value + value[:1], value[::-1], [], None))
        case _:
            return rng.choice(({}, None, 0, "x"))


def test_a_plan_with_one_thing_changed_runs_or_is_refused(bundle: Path, tmp_path: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text())
    found, outcomes = list(places(plan)), Counter[str]()
    texts = [value for _, value in found if isinstance(value, str)]
    for seed in range(MUTANTS):
        rng = random.Random(seed)
        path, value = rng.choice(found)
        mutant = copy.deepcopy(plan)
        holder = mutant
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = mutated(value, texts, rng)
        target = tmp_path / str(seed)
        shutil.copytree(bundle, target)
        (target / "plan.json").write_text(json.dumps(mutant))
        outcomes[run(target)] += 1
    assert outcomes["ok"] > MUTANTS // 10
    assert outcomes["InvalidBundleError"] > MUTANTS // 3


def test_a_partition_cut_short_is_refused(bundle: Path, tmp_path: Path) -> None:
    for file in sorted(bundle.glob("*.onnx")):
        content = file.read_bytes()
        for end in (0, 1, len(content) // 2, len(content) - 1):
            target = tmp_path / f"{file.stem}.{end}"
            shutil.copytree(bundle, target)
            (target / file.name).write_bytes(content[:end])
            with pytest.raises(InvalidBundleError, match=f"damaged: {file.name} is no whole model") as refused:
                hetpart.Session(target, emulate=True)
            assert "hetpart partition" in refused.value.hint


def test_partitions_that_changed_places_are_refused(bundle: Path) -> None:
    files = sorted(bundle.glob("*.onnx"))
    for first, second in pairwise(files):
        swapped = shutil.copytree(bundle, bundle.with_name(f"swapped-{first.stem}"))
        shutil.copy(first, swapped / second.name)
        with pytest.raises(InvalidBundleError, match=f"{second.name} is not the model of partition"):
            hetpart.Session(swapped, emulate=True)


def test_more_memory_than_there_is_is_refused(bundle: Path, tmp_path: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text())
    for offset in (10**17, 10**30):
        plan["buffers"][0]["offset"] = offset
        target = shutil.copytree(bundle, tmp_path / str(offset))
        (target / "plan.json").write_text(json.dumps(plan))
        assert run(target) in ("ExecutionError", "InvalidBundleError")
