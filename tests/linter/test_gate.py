"""The gate of ``docs/ci.md``: what a change of a model does to its best plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import numpy_helper

import hetpart
from hetpart.plan.model import Plan
from tests.runtime.models import model

PAGE = Path(__file__).parent.parent.parent / "docs" / "ci.md"
LAYERS = 6
WEIGHT = np.zeros((1024, 1024), np.float32)
OPTIONS: dict[str, Any] = {"hardware": "l4+epyc", "budget": "1GB"}


def layers(op: str = "Relu", count: int = LAYERS) -> onnx.ModelProto:
    """Layers that are worth a GPU, their activation ``op``."""
    body = "".join(
        f"[layer{i}_mm] m{i} = MatMul (x{i}, w{i}) [layer{i}_act] x{i + 1} = {op} (m{i}) " for i in range(count)
    )
    proto = model(f"g (float[4096,1024] x0) => (float[4096,1024] x{count}) {{ {body} }}")
    proto.graph.initializer.extend(numpy_helper.from_array(WEIGHT, f"w{i}") for i in range(count))
    for node in proto.graph.node:
        scope = "layer." + node.name.removeprefix("layer").partition("_")[0]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', '{scope}', '{node.name}']")
    return proto


@pytest.fixture(scope="module")
def kept() -> Plan:
    return hetpart.partition(layers(), **OPTIONS).plan


def regressions(proto: onnx.ModelProto, kept: Plan, **options: Any) -> list[hetpart.Finding]:
    return hetpart.lint(proto, plan=kept, select="plan-regressed", **OPTIONS | options)


def test_the_same_model_has_not_regressed(kept: Plan) -> None:
    assert regressions(layers(), kept) == []


def test_names_that_an_export_shifts_move_nothing(kept: Plan) -> None:
    renamed = layers()
    for node in renamed.graph.node:
        node.name = f"node_{node.op_type}_{len(node.name)}_{node.output[0]}"
    assert regressions(renamed, kept) == []


def test_more_work_is_slower_and_larger(kept: Plan) -> None:
    found = [finding.message for finding in regressions(layers(count=2 * LAYERS), kept)]
    assert any(re.search(r"predicted to take .*, \d+ % more than", text) for text in found)
    assert any(re.fullmatch(r"cuda:0 holds .* at most, and held .*", text) for text in found)


@pytest.mark.parametrize("pin", ["layer.2.*=cpu", "op:Relu=cpu"])
def test_ops_that_moved_to_the_cpu_are_counted_and_named(pin: str, kept: Plan) -> None:
    (found,) = [finding for finding in regressions(layers(), kept, pin=pin) if "moved" in finding.message]
    pinned = hetpart.partition(layers(), pin=pin, **OPTIONS).plan
    once = {decision.op for decision in kept.decisions if decision.device == "cpu"}
    moved = [decision.op for decision in pinned.decisions if decision.device == "cpu" and decision.op not in once]
    listed = ", ".join(map(repr, moved[:3])) + (f" and {len(moved) - 3} more" if len(moved) > 3 else "")
    assert found.message == f"{len(moved)} ops moved from the accelerator to the CPU: {listed}"
    assert found.op == moved[0]


def test_less_work_is_neither_slower_nor_larger(kept: Plan) -> None:
    found = regressions(layers(count=LAYERS - 1), kept)
    assert all("moved" in finding.message for finding in found)


def test_a_plan_that_took_no_time_is_no_fault(kept: Plan) -> None:
    nothing = replace(kept, prediction=replace(kept.prediction, seconds=0.0))
    assert any("took no time before" in finding.message for finding in regressions(layers(), nothing))


def test_the_documented_workflow_is_pinned_and_gives_inputs_that_are() -> None:
    (text,) = re.findall(r"```yaml\n(name: model.*?)```", PAGE.read_text(), re.DOTALL)
    workflow = yaml.safe_load(text)
    steps = workflow["jobs"]["plan"]["steps"]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@([0-9a-f]{40}|COMMIT)", used) for used in uses)
    inputs = yaml.safe_load((PAGE.parent.parent / "action.yml").read_text())["inputs"]
    given = [step["with"] for step in steps if step.get("uses", "").startswith("OWNER/hetpart")]
    assert all(set(each) <= set(inputs) for each in given)
    assert [each.get("ignore") for each in given] == ["stale-plan", None]
    assert workflow["permissions"] == {"contents": "read"}
