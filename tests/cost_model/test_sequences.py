"""Sequences are as large as the tensors in them: by what ONNX Runtime returns, and by what its arena says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hetpart
from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
from tests.cost_model.float_models import FLOAT, feeds_of, model_of

REACH = 0.05
ROWS = (512, 1024)
node, typed = helper.make_node, helper.make_tensor_value_info


def whole(number: int | list[int]) -> np.ndarray[Any, Any]:
    return np.array(number, np.int64)


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, ROWS)


def joined(nodes: list[onnx.NodeProto], parts: int, **weights: np.ndarray[Any, Any]) -> Any:
    """Nodes that make the sequence ``s`` of ``a``, which is joined then."""
    ends = [
        node("Erf", ["x"], ["a"], name="begin"),
        node("ConcatFromSequence", ["s"], ["t"], name="join", axis=0),
        node("Erf", ["t"], ["y"], name="end"),
    ]
    return model_of([ends[0], *nodes, *ends[1:]], {"x": ROWS}, {"y": (parts * ROWS[0], ROWS[1])}, weights)


def looped(trips: int) -> Any:
    body = helper.make_graph(
        [
            node("Sqrt", ["a"], ["b"]),
            node("SequenceInsert", ["before", "b"], ["after"]),
            node("Identity", ["c"], ["c_out"]),
        ],
        "body",
        [typed("i", TensorProto.INT64, []), typed("c", TensorProto.BOOL, []), sequence("before")],
        [typed("c_out", TensorProto.BOOL, []), sequence("after")],
    )
    loop = node("Loop", ["trips", "", "e"], ["s"], name="loop", body=body)
    return joined([node("SequenceEmpty", [], ["e"], name="empty"), loop], trips, trips=whole(trips))


def branched() -> Any:
    """Both branches make as much."""
    branches = {
        name: helper.make_graph([node("SequenceConstruct", ["a"] * 3, [name])], name, [], [sequence(name)])
        for name in ("then_branch", "else_branch")
    }
    model = joined([node("If", ["c"], ["s"], name="if", **branches)], 3)
    model.graph.input.append(typed("c", TensorProto.BOOL, []))
    return model


INSERTING = [
    node("SequenceEmpty", [], ["e"], name="empty"),
    node("SequenceInsert", ["e", "a"], ["s1"], name="first"),
    node("Sqrt", ["a"], ["b"], name="b"),
    node("SequenceInsert", ["s1", "b"], ["s2"], name="second"),
    node("Neg", ["b"], ["c"], name="c"),
    node("SequenceInsert", ["s2", "c"], ["s"], name="third"),
]
MAPPED = helper.make_graph([node("Sqrt", ["el"], ["r"])], "b", [typed("el", FLOAT, ROWS)], [typed("r", FLOAT, ROWS)])
MODELS: dict[str, Any] = {
    "constructed": joined(
        [node("Sqrt", ["a"], ["b"], name="b"), node("SequenceConstruct", ["a", "b", "a"], ["s"], name="s")], 3
    ),
    "inserted": joined(INSERTING, 3),
    "named twice": joined(
        [node("SequenceConstruct", ["a", "a"], ["s0"], name="s"), node("Identity", ["s0"], ["s"], name="same")], 2
    ),
    "split in parts": joined([node("SplitToSequence", ["a", "k"], ["s"], name="s", axis=0)], 1, k=whole(100)),
    "split in named parts": joined(
        [node("SplitToSequence", ["a", "k"], ["s"], name="s", axis=0)], 1, k=whole([12, 400, 100])
    ),
    "split in rows": joined([node("SplitToSequence", ["a"], ["s"], name="s", axis=0)], 1),
    "mapped": joined(
        [
            node("SequenceConstruct", ["a", "a", "a"], ["s0"], name="s"),
            node("SequenceMap", ["s0"], ["s"], name="map", body=MAPPED),
        ],
        3,
    ),
    "of a branch": branched(),
    **{f"of a loop of {trips}": looped(trips) for trips in (1, 2, 3, 5, 9)},
}
ERASED = joined(
    [
        node("SplitToSequence", ["a", "k"], ["s0"], name="s", axis=0),
        node("SequenceErase", ["s0", "which"], ["s"], name="erase"),
    ],
    1,
    k=whole([12, 400, 100]),
    which=whole(-2),
)


@pytest.mark.parametrize("name", MODELS)
def test_the_memory_of_sequences_is_what_onnx_runtime_takes(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    measured = measured_peak(profiled_nodes(model, feeds_of(model), tmp_path))
    assert predicted_peak(model) == pytest.approx(measured, rel=REACH)


@pytest.mark.parametrize("model", [*MODELS.values(), ERASED], ids=[*MODELS, "erased"])
def test_parts_are_those_that_onnx_runtime_returns(model: onnx.ModelProto) -> None:
    returning = onnx.ModelProto()
    returning.CopyFrom(model)
    returning.graph.output.append(helper.make_tensor_sequence_value_info("s", FLOAT, None))
    session = onnxruntime.InferenceSession(returning.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(["s"], feeds_of(model))
    value = hetpart.load(returning).value_named("s")
    assert value.parts == tuple(part.nbytes for part in found)
    assert value.nbytes == sum(part.nbytes for part in found)


def test_a_tensor_of_unknown_shape_is_as_large_as_one_in_the_sequence_at_most() -> None:
    nodes = [
        node("SplitToSequence", ["a", "k"], ["s0"], name="s", axis=0),
        node("SequenceAt", ["s0", "which"], ["one"], name="at"),
        node("SequenceConstruct", ["one"], ["s"], name="again"),
    ]
    model = joined(nodes, 1, k=whole([112, 400]))
    model.graph.input.append(typed("which", TensorProto.INT64, []))
    assert hetpart.load(model).value_named("one").nbytes == 400 * ROWS[1] * 4


def test_inserting_costs_what_is_inserted() -> None:
    costs = hetpart.annotate(joined(INSERTING, 3), hardware="l4+epyc")
    (third,) = (cost for cost in costs.ops if costs.graph.ops[cost.op].name == "third")
    assert third.work.bytes_moved == 2 * ROWS[0] * ROWS[1] * 4
