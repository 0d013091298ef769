"""Why an op is where it is, beside plans that are asked for directly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import hetpart
from hetpart.cli import main
from hetpart.errors import InvalidOptionError
from hetpart.plan.explanation import Explanation
from tests.partitioner.layers import layered
from tests.runtime.models import model

OPTIONS: dict[str, Any] = {"hardware": "l4+generic-2core", "budget": "33MB"}
NAMES = [f"layer{index}" for index in range(5)]


def explain(node: str, given: Any = None, **options: Any) -> Explanation:
    return hetpart.explain(given or layered(), node, **OPTIONS | options).explanation


def partition(**options: Any) -> hetpart.Plan:
    return hetpart.partition(layered(), **OPTIONS | options).plan


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args], env={"COLUMNS": "100"})


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "layers.onnx"
    onnx.save(layered(), path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_an_op_is_what_the_plan_says(name: str) -> None:
    plan, found = partition(), explain(name)
    decision = next(decision for decision in plan.decisions if decision.op == name)
    assert (found.op, found.op_type, found.device) == (name, decision.op_type, decision.device)
    assert (found.reason, found.partition, found.partitions) == (
        decision.reason, decision.partition, len(plan.partitions)
    )  # fmt: skip
    assert found.seconds == pytest.approx(plan.prediction.seconds)
    assert {side.device: side.seconds for side in found.sides} == pytest.approx(decision.seconds)
    assert found.sides[0].chosen
    assert {side.weight_bytes for side in found.sides} == {decision.weight_bytes}
    assert found.budgets == {"cuda:0": 33_000_000}


@pytest.mark.parametrize("name", NAMES)
def test_elsewhere_is_the_plan_with_a_pin(name: str) -> None:
    found = explain(name)
    (forced,) = found.forced
    assert forced.device != found.device
    pinned = partition(pin=f"{name}={forced.device}")
    assert forced.seconds == pytest.approx(pinned.prediction.seconds)
    assert forced.lower_bound is not None
    assert forced.lower_bound >= max(found.lower_bound, pinned.certificate.lower_bound) * (1 - 1e-9)
    assert forced.lower_bound <= pinned.certificate.cost * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_other_side_is_this_plan_with_the_op_turned(name: str) -> None:
    found = explain(name)
    here, there = found.sides
    placed = {decision.op: decision.device for decision in partition().decisions}
    turned = partition(budget="10GB", placement=placed | {name: there.device})
    assert there.total_seconds == pytest.approx(turned.prediction.seconds)
    assert here.total_seconds == pytest.approx(found.seconds)
    assert here.group_seconds is not None
    assert there.group_seconds is not None
    change = there.group_seconds + there.copy_seconds - here.group_seconds - here.copy_seconds
    assert turned.certificate.cost - found.cost == pytest.approx(change)


def test_a_pin_is_lifted_to_see_what_it_costs() -> None:
    free = explain("layer0")
    pinned = explain("layer0", pin=f"layer0={free.forced[0].device}")
    assert (pinned.pinned, pinned.device) == (True, free.forced[0].device)
    assert pinned.forced[0].seconds == pytest.approx(free.seconds)
    report = hetpart.explain(layered(), "layer0", pin=f"layer0={pinned.device}", **OPTIONS).report()
    assert "where it is pinned" in report
    if pinned.seconds > free.seconds * 1.001:
        assert "That is what the pin costs." in " ".join(report.split())


def test_an_op_without_a_kernel_elsewhere_says_so() -> None:
    text = model("g (string[2] x) => (string[2] z) { [s] y = StringNormalizer(x) [t] z = StringNormalizer(y) }")
    found = explain("s", text)
    assert (found.device, found.forced[0].seconds) == ("cpu", None)
    assert found.forced[0].obstacle == found.sides[1].obstacle != ""


def test_a_side_that_does_not_fit_says_what_it_would_take() -> None:
    (forced,) = explain("layer2", budget="1MB").forced
    assert (forced.device, forced.seconds) == ("cuda:0", None)
    assert forced.required_bytes is not None
    assert forced.required_bytes > 4 * 256 * 4096


def test_where_activations_fill_the_budget_no_price_is_known_and_that_is_said() -> None:
    steps = " ".join(f"[m{i}] a{i} = MatMul(s{i}, v) [t{i}] s{i + 1} = Softmax<axis=0>(a{i})" for i in range(6))
    proto = model(f"g (float[2048, 1024] s0, float[1024, 1024] v) => (float[2048, 1024] s6) {{ {steps} }}")
    del proto.graph.input[1]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1024, 1024), np.float32), "v"))
    tight = hetpart.explain(proto, "m1", hardware="l4+generic-2core", budget="50MB")
    assert (tight.explanation.price, tight.explanation.price_known) == (0.0, False)
    assert "no price of a byte is known here" in tight.report()
    whole = hetpart.explain(proto, "m1", hardware="l4+generic-2core", budget="1GB")
    assert (whole.explanation.price, whole.explanation.price_known) == (0.0, True)
    assert "no price of a byte" not in whole.report()


def test_an_op_is_found_by_its_value_and_by_a_pattern() -> None:
    assert explain("y3").op == explain("*2").op == explain("node:layer2").op == "layer2"


def test_names_that_are_not_there_suggest_those_that_are() -> None:
    with pytest.raises(InvalidOptionError, match="has no op 'LAYER2'") as refused:
        explain("LAYER2")
    assert refused.value.hint.startswith("did you mean 'layer2'")
    with pytest.raises(InvalidOptionError, match="'op:MatMul' matches 5 ops") as refused:
        explain("op:MatMul")
    assert "'layer0', 'layer1'" in refused.value.hint
    with pytest.raises(InvalidOptionError, match="has no op 'qqq'") as refused:
        explain("qqq")
    assert "for example, 'layer0'" in refused.value.hint


def test_a_folded_node_is_told_from_one_that_is_not_there() -> None:
    text = model("""g (float[4] x) => (float[4] z) {
        [one] c = Constant <value_float = 1.0> () [twice] d = Add(c, c) [add] z = Add(x, d)
    }""")
    with pytest.raises(InvalidOptionError, match="'one' of 'g' is not placed: what it computes is known"):
        explain("one", text)


def test_ops_that_share_a_device_are_named() -> None:
    found = explain("layer1", colocate="layer1,layer3")
    assert found.together == ("layer3",)
    assert found.sides[0].group_seconds > found.sides[0].seconds


def test_the_command_says_it_in_words(path: Path) -> None:
    result = invoke("explain", path, "layer2", "--hardware", OPTIONS["hardware"], "--budget", "33MB")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    found = explain("layer2")
    assert f"Runs on {found.device}, partition {found.partition} of {found.partitions}" in text
    assert f"The best plan found with it on {found.forced[0].device} takes" in text
    assert "Proven: " in text or "Not proven: " in text
    assert max(len(line) for line in result.stdout.splitlines()) <= 100


def test_the_command_prints_json(path: Path) -> None:
    asked = ("explain", path, "layer2", "--hardware", OPTIONS["hardware"], "--budget", "33MB", "--json")
    content = json.loads(invoke(*asked).stdout)
    assert (content["schema"], content["version"], content["op"]) == ("hetpart.explain", 1, "layer2")
    assert [side["device"] for side in content["sides"]] == [content["device"], content["forced"][0]["device"]]


def test_an_unknown_name_ends_the_command_with_2(path: Path) -> None:
    result = invoke("explain", path, "layer22", "--hardware", OPTIONS["hardware"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: did you mean 'layer2'" in result.stderr
