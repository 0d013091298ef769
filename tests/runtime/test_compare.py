from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.checked import Checked
from hetpart.runtime.compare import compare


@pytest.mark.parametrize("steps", [0, 3])
def test_a_loop_of_no_iterations_agrees_with_the_uncut_model(steps: int, zoo_model: Callable[[str], Path]) -> None:
    """ONNX Runtime gives its history 0 for the symbolic batch; the plan's batch is bound."""
    checked = Checked.of("control-flow-tiny", zoo_model("control-flow-tiny").parent)
    checked.feeds["steps"] = np.array(steps)
    model = checked.partition(hardware="emulated", placement="random:1")
    assert len(model.plan.partitions) > 1
    assert checked.run(model, exact=True)["equal"]


@pytest.mark.parametrize(
    ("ours", "uncut", "equal"),
    [
        ((0, 8, 4), (0, 0, 4), True),
        ((0, 8, 4), (0, 8, 4), True),
        ((0, 8, 4), (0, 8, 5), False),
        ((0, 0, 4), (0, 8, 4), False),
        ((0, 8), (0, 8, 4), False),
        ((1, 8, 4), (0, 0, 4), False),
    ],
)
def test_empty_results_differ_only_where_the_uncut_model_knows_no_size(
    ours: tuple[int, ...], uncut: tuple[int, ...], equal: bool
) -> None:
    arrays = [np.zeros(ours, np.float32)], [np.zeros(uncut, np.float32)]
    for exact in (False, True):
        assert compare(["y"], *arrays, exact=exact).equal is equal


def test_empty_results_of_other_types_differ() -> None:
    assert not compare(["y"], [np.zeros((0, 2), np.float32)], [np.zeros((0, 0), np.int64)], exact=False).equal


@pytest.mark.parametrize(("dtype", "equal"), [(np.float32, False), (np.float64, False), (np.float16, True)])
def test_exact_holds_all_but_half_precision_to_the_bit(dtype: type[np.floating], equal: bool) -> None:
    uncut = np.array([0.5, 0.25], dtype)
    found = compare(["y"], [np.nextafter(uncut, dtype(1))], [uncut], exact=True)
    assert (found.equal, found.exact) == (equal, not equal)
    assert found.largest_difference > 0


def test_exact_says_so_where_nothing_differs() -> None:
    same = [np.ones(3, np.float32), np.arange(3)]
    assert compare(["a", "b"], same, same, exact=True).exact
