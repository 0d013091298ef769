"""Does lint find what is wrong, and nothing else? Every rule's defect planted into every model of the zoo.

    python -m benchmarks.lint_seeded [--models NAME ...] [--zoo FOLDER] [--backend]

Reach: every planted defect found by its rule, in the op, weight or device that it was planted in; no finding over the
clean models at the default selection. What it finds of their plans under half of their footprint is shown beside it:
such a budget is no fault, and what it costs is true. With ``--backend`` every model of ``onnx.backend.test`` is linted
too: none may raise more than a HetpartError.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import hetpart
from benchmarks import zoo
from benchmarks.checked import chosen_models
from benchmarks.defects import PLANTS, Planted
from benchmarks.measure import emit, machine_facts, say
from benchmarks.plan_defects import HARDWARE, plan_defects
from benchmarks.planting import Ground
from benchmarks.table import Cell, figure, print_table
from hetpart.cost_model import calibrated
from hetpart.errors import HetpartError
from hetpart.linter.rule import all_rules
from hetpart.plan.findings import Severity

COLUMNS: Mapping[str, Cell] = {
    "rule": figure("rule"),
    "planted": figure("planted"),
    "found": figure("found"),
    "missed in": lambda row: ", ".join(row["missed"]),
}
CLEAN: Mapping[str, Cell] = {
    "model": figure("model"),
    "findings": lambda row: _counted(row["findings"]),
    "at half of its footprint": lambda row: _counted(row["with_budget"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], choices=list(zoo.ZOO), metavar="NAME")
    parser.add_argument("--zoo", type=Path, default=zoo.DEFAULT_FOLDER, help="folder of the built models")
    parser.add_argument("--backend", action="store_true", help="lint the models of onnx.backend.test, too")
    arguments = parser.parse_args()
    facts = machine_facts()
    names = chosen_models(arguments.models, tiny=False)
    cases = [case for name in names for case in seeded(name, zoo.prepare(name, arguments.zoo))]
    rules = [_of_rule(rule.code, rule.name, cases) for rule in all_rules() if rule.is_own]
    print_table(COLUMNS, rules)
    clean = [clean_findings(name, zoo.prepare(name, arguments.zoo)) for name in names]
    print_table(CLEAN, clean)
    backend = backend_models() if arguments.backend else None
    found_all = all(row["found"] == row["planted"] > 0 for row in rules)
    reached = found_all and not any(row["findings"] for row in clean)
    content = {"reached": reached, "rules": rules, "clean": clean, "backend": backend}
    emit("lint_seeded", {"machine": facts, "hardware": HARDWARE, **content})
    sys.exit(0 if reached and not (backend and backend["raised"]) else 1)


def seeded(name: str, path: Path) -> Iterator[dict[str, Any]]:
    """A row for every rule: whether it found its defect in the model ``name``."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{name}-") as folder:
        before = os.environ.get(calibrated.FOLDER_VARIABLE)
        os.environ[calibrated.FOLDER_VARIABLE] = folder
        try:
            ground = Ground.of(path, Path(folder), zoo.ZOO[name].shape)
            for rule, planted in _planted(ground):
                found = _finds(rule, planted, ground)
                say(f"lint_seeded: {name}: {rule} {'found' if found else 'MISSED'}")
                yield {"model": name, "rule": rule, "found": found}
        finally:
            _restore(before)


def _restore(before: str | None) -> None:
    if before is None:
        del os.environ[calibrated.FOLDER_VARIABLE]
    else:
        os.environ[calibrated.FOLDER_VARIABLE] = before


def _planted(ground: Ground) -> Iterator[tuple[str, Planted]]:
    for rule, plant in PLANTS.items():
        planted = plant(ground)
        yield rule, planted
        if planted.model != ground.path:
            planted.model.unlink()
    yield from plan_defects(ground)


def _finds(rule: str, planted: Planted, ground: Ground) -> bool:
    options = {"hardware": HARDWARE, "shape": ground.shape, **planted.options}
    found = hetpart.lint(planted.model, select=rule, **options)
    return any(planted.speaks_of in f"{finding.message} {finding.op} {finding.anchor}" for finding in found)


def _of_rule(code: str, name: str, cases: list[dict[str, Any]]) -> dict[str, Any]:
    own = [case for case in cases if case["rule"] == name]
    missed = [case["model"] for case in own if not case["found"]]
    return {"code": code, "rule": name, "planted": len(own), "found": len(own) - len(missed), "missed": missed}


def clean_findings(name: str, path: Path) -> dict[str, Any]:
    """What the default selection finds in a model that nothing is wrong with."""
    options: dict[str, Any] = {"hardware": HARDWARE, "shape": zoo.ZOO[name].shape}
    everything = hetpart.partition(path, placement="all-accelerator", budget="1000TB", **options).plan
    budget = everything.footprint_bytes // 2
    return {
        "model": name,
        "findings": _texts(hetpart.lint(path, **options)),
        "with_budget": _texts(hetpart.lint(path, budget=budget, time_limit=10, **options)),
    }


def _texts(found: list[hetpart.Finding]) -> list[str]:
    return [f"{finding.severity} {finding.code} {finding.rule}: {finding.message}" for finding in found]


def _counted(texts: list[str]) -> str:
    rules = [text.split(":")[0].split(" ", 1)[1] for text in texts]
    return ", ".join(f"{rules.count(rule)} × {rule}" for rule in sorted(set(rules))) or "0"


def backend_models() -> dict[str, Any]:
    """How the models of ``onnx.backend.test`` fare: by rule what is found, and what raised."""
    from tests.conformance.collected import collected_models

    warnings.simplefilter("ignore")  # NumPy warns inside the reference evaluator that makes ONNX's test data
    start, found, errors = perf_counter(), dict[str, int](), dict[str, list[str]]()
    refused, raised = 0, dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ONNX_HOME"] = folder
        models = collected_models()
        for test, model in models.items():
            try:
                findings = hetpart.lint(model, hardware=HARDWARE)
            except HetpartError:
                refused += 1
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                raised[test] = f"{type(error).__name__}: {error}"
            else:
                for finding in findings:
                    found[finding.rule] = found.get(finding.rule, 0) + 1
                    if finding.severity is Severity.ERROR:
                        errors.setdefault(test, []).append(f"{finding.rule}: {finding.message}")
    counted = dict(sorted(found.items()))
    row = {"models": len(models), "refused": refused, "raised": raised, "found": counted, "errors": errors}
    say(f"lint_seeded: onnx.backend.test: {row}")
    return {**row, "seconds": round(perf_counter() - start, 1)}


if __name__ == "__main__":
    main()
