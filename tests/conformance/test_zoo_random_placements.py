"""Random placements of every small model of the zoo, bit for bit against the uncut model, optimisations off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.checked import Checked, chosen_models

SEEDS = 10
"""Of each kind: lanes one after another, and at the same time."""


@pytest.mark.parametrize("name", chosen_models([], tiny=True))
@pytest.mark.parametrize("overlap", [False, True])
def test_results_are_bit_equal_wherever_the_cuts_fall(
    name: str, overlap: bool, zoo_model: Callable[[str], Path]
) -> None:
    checked = Checked.of(name, zoo_model(name).parent)
    copies: Counter[str] = Counter()
    for seed in range(overlap, 2 * SEEDS, 2):
        model = checked.partition(hardware="emulated", placement=f"random:{seed}")
        found = checked.run(model, exact=True, overlap=overlap)
        assert found["equal"], f"seed {seed}: {found}"
        copies.update(found["copies"])
    assert min(copies["cpu->cuda:0"], copies["cuda:0->cpu"]) >= SEEDS, copies
