"""Which op is which: after a re-export that numbers nodes anew, and where names are all there is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.plan.match import matched_ops
from hetpart.plan.model import Decision
from tests.plans import wide_and_deep_plan

FIRST = wide_and_deep_plan().decisions[0]
Op = tuple[str, str, str]


def ops(*rows: Op) -> list[Decision]:
    """Decisions of ops by scope, type and name."""
    return [replace(FIRST, scope=scope, op_type=kind, op=name) for scope, kind, name in rows]


def pairs(before: list[Decision], after: list[Decision]) -> list[tuple[str, str]]:
    return [(old.op, new.op) for old, new in matched_ops(before, after)]


def test_a_node_more_that_shifts_every_number_moves_no_op() -> None:
    before = ops(("a", "MatMul", "node_0"), ("a", "Add", "node_1"), ("b", "MatMul", "node_2"), ("b", "Add", "node_3"))
    after = ops(("a", "MatMul", "node_0"), ("a", "Cast", "node_1"), ("a", "Add", "node_2"), ("b", "MatMul", "node_3"),
                ("b", "Add", "node_4"))  # fmt: skip
    assert pairs(before, after) == [
        ("node_0", "node_0"), ("node_1", "node_2"), ("node_2", "node_3"), ("node_3", "node_4"),
    ]  # fmt: skip


def test_numbers_that_shift_within_a_module_match_by_order_and_not_by_name() -> None:
    before = ops(("a", "Add", "node_1"), ("a", "Add", "node_2"))
    after = ops(("a", "Add", "node_2"), ("a", "Add", "node_3"))
    assert pairs(before, after) == [("node_1", "node_2"), ("node_2", "node_3")]


def test_where_a_module_keeps_its_names_the_order_does_not_matter() -> None:
    before = ops(("a", "Add", "left"), ("a", "Add", "right"))
    assert pairs(before, list(reversed(before))) == [("right", "right"), ("left", "left")]


def test_without_a_module_name_and_type_tell() -> None:
    before = ops(("", "Add", "x"), ("", "Mul", "y"), ("", "Add", "gone"))
    after = ops(("", "Mul", "y"), ("", "Add", "new"), ("", "Sub", "x"))
    assert pairs(before, after) == [("y", "y")]


def test_large_modules_are_matched_by_names() -> None:
    before = ops(*(("a", "Add", f"node_{number}") for number in range(2100)))
    after = ops(*(("a", "Add", f"node_{number}") for number in range(1, 2100)))
    assert pairs(before, after) == [(f"node_{number}", f"node_{number}") for number in range(1, 2100)]


ROWS = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["Add", "Mul"]), st.integers(0, 9)),
                max_size=12, unique_by=lambda row: row[2])  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS)
def test_pairs_are_of_one_module_and_type_and_no_op_is_in_two(
    old: list[tuple[str, str, int]], new: list[tuple[str, str, int]]
) -> None:
    before, after = (ops(*((scope, kind, f"n{number}") for scope, kind, number in rows)) for rows in (old, new))
    found = matched_ops(before, after)
    for first, second in found:
        assert (first.scope, first.op_type) == (second.scope, second.op_type)
    assert len({first.op for first, _ in found}) == len({second.op for _, second in found}) == len(found)
    assert [(one.op, two.op) for one, two in matched_ops(before, before)] == [(one.op, one.op) for one in before]
