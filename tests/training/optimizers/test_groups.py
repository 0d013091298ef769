from __future__ import annotations

import pytest
import torch

from hetpart.errors import InvalidOptionError
from hetpart.training.optimizers import FTRL, AdamW, Assignment, Group, Groups, LazyAdam, Optimizer, assign

NAMES = ("wide.weight", "deep.0.weight", "deep.0.bias", "norm.weight", "embedding.weight")
PARAMETERS = {name: torch.zeros(1 if "bias" in name or "norm" in name else (2, 2)) for name in NAMES}  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_without_groups_all_have_one_optimizer() -> None:
    assert assign(AdamW(), PARAMETERS) == dict.fromkeys(NAMES, Assignment(AdamW()))


def test_a_parameter_is_of_the_first_group_that_holds_it() -> None:
    base = AdamW(1e-3, weight_decay=0.1)
    groups = Groups(
        base,
        (
            Group("wide.*", FTRL(0.05)),
            Group("embedding.*", LazyAdam(), lr=2e-3, target="cpu"),
            Group(("*.bias", "norm.*"), weight_decay=0.0),
            Group("*", lr=5e-4),
        ),
    )
    assert assign(groups, PARAMETERS) == {
        "wide.weight": Assignment(FTRL(0.05), group=0),
        "deep.0.weight": Assignment(AdamW(5e-4, weight_decay=0.1), group=3),
        "deep.0.bias": Assignment(AdamW(1e-3, weight_decay=0.0), group=2),
        "norm.weight": Assignment(AdamW(1e-3, weight_decay=0.0), group=2),
        "embedding.weight": Assignment(LazyAdam(2e-3), "cpu", 1),
    }


def test_a_filter_may_be_a_function_of_name_and_parameter() -> None:
    chosen = assign(Groups(AdamW(), (Group(lambda _, p: p.ndim < 2, weight_decay=0.0),)), PARAMETERS)
    assert [name for name, one in chosen.items() if one.group == 0] == ["deep.0.bias", "norm.weight"]


def test_a_group_that_holds_nothing_is_an_error_that_names_the_parameters() -> None:
    with pytest.raises(InvalidOptionError, match=r"group 0 \('layer\.\*'\) holds none of the 5 parameters") as error:
        assign(Groups(AdamW(), (Group("layer.*"),)), PARAMETERS)
    assert "wide.weight" in error.value.hint


def test_a_group_sets_only_what_its_optimizer_has() -> None:
    with pytest.raises(InvalidOptionError, match="sets weight_decay, which FTRL does not have"):
        assign(Groups(AdamW(), (Group("wide.*", FTRL(0.1), weight_decay=0.1),)), PARAMETERS)


def test_records_are_of_the_protocol() -> None:
    assert isinstance(AdamW(), Optimizer)
    assert not isinstance(LazyAdam(), Optimizer)
