"""Parts of a Split in place of Gathers wait, as the Split makes them, for others made so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import feeds_of, model_of


def summed_up(turns: int, parts: int = 8, rows: int = 64, width: int = 64) -> onnx.ModelProto:
    """A value's parts are multiplied one after the other, each time ``turns`` takes, and put together again."""
    nodes, source = [helper.make_node("Erf", ["x"], ["t0"])], "t0"
    for turn in range(turns):
        nodes += [helper.make_node("Gather", [source, f"i{n}"], [f"p{turn}_{n}"], axis=1) for n in range(parts)]
        for n in range(1, parts):
            before = f"p{turn}_0" if n == 1 else f"m{turn}_{n - 1}"
            nodes.append(helper.make_node("Mul", [before, f"p{turn}_{n}"], [f"m{turn}_{n}"]))
        made = [f"m{turn}_{n}" for n in range(1, parts)]
        nodes += [helper.make_node("Unsqueeze", [name, "axis"], [f"{name}_u"]) for name in (*made, made[0])]
        nodes[-1].output[0] += "again"
        source = f"t{turn + 1}"
        nodes.append(helper.make_node("Concat", [*(f"{n}_u" for n in made), nodes[-1].output[0]], [source], axis=1))
    nodes.append(helper.make_node("Erf", [source], ["y"]))
    weights = {f"i{n}": np.array(n) for n in range(parts)} | {"axis": np.array([1])}
    shape = (rows, parts, width)
    return model_of(nodes, {"x": shape}, {"y": shape}, weights)


def test_parts_wait_in_the_form_that_the_split_makes(tmp_path: Path) -> None:
    for turns in (1, 2, 3):
        model = summed_up(turns)
        measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
        assert predicted_peak(model) == measured
