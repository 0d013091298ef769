"""For every rule of lint, how to plant its defect into a model: by rule, what is linted then and what must be found.

Defects of files, graphs and costs, one at a time; those of plans stand in ``plan_defects.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.planting import PREFIX, Copy, Ground

_MIB = 2**20
_CUSTOM = "com.example"


@dataclass(frozen=True, slots=True)
class Planted:
    """What is linted, and what a finding of the rule must speak of."""

    model: Path
    speaks_of: str = PREFIX
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


Plant = Callable[[Ground], Planted]
PLANTS: dict[str, Plant] = {}
"""By rule."""


def plants(rule: str) -> Callable[[Plant], Plant]:
    def enter(plant: Plant) -> Plant:
        PLANTS[rule] = plant
        return plant

    return enter


@plants("unnamed-node")
def _unnamed(ground: Ground) -> Planted:
    copy = ground.copy("unnamed")
    nodes = list(_all(copy.proto))
    unnamed = sum(not node.name for node in nodes)
    next(node for node in nodes if node.name or unnamed == len(nodes)).name = ""
    return Planted(copy.write(), f"{min(unnamed + 1, len(nodes))} of {len(nodes):,} ")


def _all(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    from hetpart.graph.walk import all_nodes

    return list(all_nodes(proto.graph.node))


@plants("duplicate-node-name")
def _same_name(ground: Ground) -> Planted:
    copy = ground.copy("same-name")
    for node in copy.proto.graph.node[:2]:
        node.name = f"{PREFIX}_twice"
    return Planted(copy.write())


@plants("dead-node")
def _dead(ground: Ground) -> Planted:
    copy = ground.copy("dead")
    copy.node("Neg", [copy.scalar()])
    return Planted(copy.write())


@plants("unused-initializer")
def _unused(ground: Ground) -> Planted:
    copy = ground.copy("unused")
    copy.weight(np.ones(3, np.float32))
    return Planted(copy.write())


@plants("outdated-opset")
def _old(ground: Ground) -> Planted:
    copy = ground.copy("old")
    for entry in copy.proto.opset_import:
        entry.version = 6
    return Planted(copy.write(), "opset 6")


@plants("external-data-missing")
def _missing(ground: Ground) -> Planted:
    copy = ground.copy("missing")
    copy.reference("planted-gone.bin", [4])
    return Planted(copy.write())


@plants("git-lfs-pointer")
def _pointer(ground: Ground) -> Planted:
    copy = ground.copy("pointer")
    copy.outside(64, "planted-pointer.bin", fill=b"version https://git-lfs.github.com/spec/v1\n")
    return Planted(copy.write())


@plants("unfolded-constant")
def _unfolded(ground: Ground) -> Planted:
    copy = ground.copy("unfolded")
    turned = copy.node("Transpose", [copy.outside(_MIB, "planted-unfolded.bin", [1024, 1024])])
    copy.sum(copy.node("Mul", [turned, copy.scalar()]))
    return Planted(copy.write())


@plants("duplicate-initializer-content")
def _twice(ground: Ground) -> Planted:
    copy = ground.copy("twice")
    for number in range(2):
        copy.outside(_MIB, f"planted-twice-{number}.bin", fill=b"planted" * _MIB)
    return Planted(copy.write())


@plants("illegal-graph")
def _illegal(ground: Ground) -> Planted:
    copy = ground.copy("illegal")
    copy.give(copy.node("Neg", [f"{PREFIX}_nowhere"]), shape=[])
    return Planted(copy.write())


@plants("unknown-rule-ignored")
def _unknown_rule(ground: Ground) -> Planted:
    copy = ground.copy("unknown-rule")
    copy.proto.metadata_props.add(key="hetpart.ignore", value=f"{PREFIX}_rule")
    return Planted(copy.write())


@plants("unknown-shape")
def _unknown(ground: Ground) -> Planted:
    copy = ground.copy("unknown")
    copy.uses(_CUSTOM)
    copy.sum(copy.node("Decode", [copy.scalar()], domain=_CUSTOM))
    return Planted(copy.write())


@plants("unbound-dimension")
def _unbound(ground: Ground) -> Planted:
    copy = ground.copy("unbound")
    copy.give(copy.node("Neg", [copy.take(TensorProto.FLOAT, [f"{PREFIX}_size"])]), shape=[f"{PREFIX}_size"])
    return Planted(copy.write())


@plants("shape-conflict")
def _conflict(ground: Ground) -> Planted:
    copy = ground.copy("conflict")
    wrong = copy.vector(4)
    copy.proto.graph.value_info.append(helper.make_tensor_value_info(wrong, TensorProto.FLOAT, [5]))
    copy.sum(wrong)
    return Planted(copy.write())


@plants("float64-compute")
def _double(ground: Ground) -> Planted:
    copy = ground.copy("double")
    copy.sum(copy.node("Cast", [copy.node("Cast", [copy.vector(4096)], to=TensorProto.DOUBLE)], to=TensorProto.FLOAT))
    return Planted(copy.write())


@plants("dynamic-shape-blocks-plan")
def _dynamic(ground: Ground) -> Planted:
    copy = ground.copy("dynamic")
    copy.give(copy.node("NonZero", [copy.vector(16)]), TensorProto.INT64, [1, "planted_found"])
    return Planted(copy.write())


@plants("int64-where-int32-serves")
def _wide(ground: Ground) -> Planted:
    copy = ground.copy("wide")
    copy.sum(copy.node("Gather", [copy.vector(16), copy.weight(np.arange(2**14) % 16)]))
    return Planted(copy.write())


@plants("no-kernel-for-device")
def _no_kernel(ground: Ground) -> Planted:
    copy = ground.copy("no-kernel")
    copy.give(copy.node("Identity", [copy.take(TensorProto.STRING, [2])]), TensorProto.STRING, [2])
    return Planted(copy.write())


@plants("unsplittable-control-flow")
def _loop(ground: Ground) -> Planted:
    copy = ground.copy("loop")
    weight = copy.outside(16 * _MIB, "planted-loop.bin", [4096, 4096])
    make, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [make("MatMul", ["h", weight], ["next"], name="multiply"), make("Identity", ["go"], ["on"], name="pass")],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("h", TensorProto.FLOAT, [1, 4096])],
        [info("on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [1, 4096])],
    )
    start = copy.node("Expand", [copy.scalar(), copy.weight(np.array([1, 4096]))])
    copy.sum(copy.node("Loop", [copy.weight(np.array(3)), "", start], body=body))
    return Planted(copy.write())


@plants("pin-matches-nothing")
def _pin(ground: Ground) -> Planted:
    return Planted(ground.path, options={"pin": f"{PREFIX}.*=cpu"})


def _large(ground: Ground, name: str, device: str) -> Copy:
    """4 MiB of weights in one op."""
    copy = ground.copy(name)
    row = copy.node("Expand", [copy.scalar(), copy.weight(np.array([1, 1024]))])
    copy.sum(copy.node("MatMul", [row, copy.outside(_MIB, f"planted-{name}.bin", [1024, 1024])], device=device))
    return copy


@plants("budget-exceeded")
def _exceeded(ground: Ground) -> Planted:
    copy = _large(ground, "exceeded", "cuda:0")
    return Planted(copy.write(), "", {"budget": "1MB", "pin": copy.pins, "time_limit": 1})


@plants("value-larger-than-budget")
def _too_large(ground: Ground) -> Planted:
    return Planted(_large(ground, "too-large", "").write(), options={"budget": "1MB"})


@plants("no-cost-formula")
def _no_formula(ground: Ground) -> Planted:
    copy = ground.copy("no-formula")
    copy.uses(_CUSTOM)
    made = copy.node("Decode", [copy.scalar()], domain=_CUSTOM)
    copy.proto.graph.value_info.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, [2]))
    copy.sum(made)
    return Planted(copy.write())


@plants("constant-near-exporter-epsilon")
def _epsilon(ground: Ground) -> Planted:
    copy = ground.copy("epsilon")
    copy.sum(copy.node("Add", [copy.scalar(), copy.weight(np.array(1e-8, np.float32))]))
    return Planted(copy.write())


@plants("half-precision-overflow-constant")
def _infinite(ground: Ground) -> Planted:
    copy = ground.copy("infinite")
    half = copy.node("Cast", [copy.scalar()], to=TensorProto.FLOAT16)
    total = copy.node("Add", [half, copy.weight(np.array([-np.inf, 0], np.float16))])
    copy.give(total, TensorProto.FLOAT16, [2])
    return Planted(copy.write())
