"""Chains of tiny ops, and plans that cut them where no placement would: between ops of one device."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hetpart
from hetpart.cost_model.memory import Interval, pack
from hetpart.plan.bundle import Bundle
from hetpart.plan.cut_models import cut_models
from hetpart.plan.model import Buffer, Partition, Plan, Transfer, ValueForm, ValueSpec
from hetpart.plan.verify import violations

if TYPE_CHECKING:
    from hetpart import PartitionedModel, Session

OPS = 50
HARDWARE = "emulated"
ACCELERATOR = "cuda:0"


def chain(width: int) -> ModelProto:
    """``OPS`` additions of a vector of ``width`` floats, one after another: ``v0`` → ``v50``."""
    step = numpy_helper.from_array(np.full(width, 0.5, np.float32), "step")
    nodes = [helper.make_node("Add", [f"v{i}", "step"], [f"v{i + 1}"], name=f"op{i}") for i in range(OPS)]
    first, last = (helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [width]) for i in (0, OPS))
    graph = helper.make_graph(nodes, "chain", [first], [last], [step])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def one_device(width: int, partitions: int, device: str) -> Session:
    """A session of the chain on one device, cut into equal ``partitions``."""
    rule = "all-cpu" if device == "cpu" else "all-accelerator"
    whole = hetpart.partition(chain(width), hardware=HARDWARE, placement=rule)
    return open_plan(whole, split(whole.plan, partitions))


def taking_turns(width: int, partitions: int, *, overlap: bool | None = None) -> Session:
    """A session of the chain cut into equal ``partitions``, every other one of them on the accelerator."""
    devices = {
        f"op{i}": ACCELERATOR if turn % 2 else "cpu"
        for turn, (start, end) in enumerate(pairwise(_borders(partitions)))
        for i in range(start, end)
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "placement.json"
        file.write_text(json.dumps(devices))
        model = hetpart.partition(chain(width), hardware=HARDWARE, placement=file)
    assert len(model.plan.partitions) == partitions
    return model.session(emulate=True, overlap=overlap)


def open_plan(model: PartitionedModel, plan: Plan) -> Session:
    """A session of ``plan``, which was made from that of ``model``."""
    assert not (broken := list(violations(plan))), broken
    models = tuple(proto.SerializeToString() for proto in cut_models(model.imported.proto, plan))
    return hetpart.Session(Bundle(plan, models, None), emulate=True)


def split(plan: Plan, partitions: int) -> Plan:
    """``plan``, which is a chain in one partition, in ``partitions`` that follow each other on its device."""
    (whole,) = plan.partitions
    borders = _borders(partitions)
    inner = [_vector(f"v{border}", plan.inputs[0]) for border in borders[1:-1]]
    return replace(
        plan,
        partitions=tuple(_part(whole, number, edges) for number, edges in enumerate(pairwise(borders))),
        values=(*plan.values, *inner),
        buffers=tuple(_buffers(plan, inner, partitions)),
        transfers=tuple(_moved(copy, partitions) for copy in plan.transfers),
        timeline=None,
    )


def _borders(partitions: int) -> list[int]:
    return [round(OPS * number / partitions) for number in range(partitions + 1)]


def _part(whole: Partition, number: int, edges: tuple[int, int]) -> Partition:
    start, end = edges
    return replace(whole, id=number, ops=whole.ops[start:end], inputs=(f"v{start}",), outputs=(f"v{end}",))


def _vector(name: str, like: ValueSpec) -> ValueSpec:
    return replace(like, name=name, form=ValueForm.STATIC)


def _moved(copy: Transfer, partitions: int) -> Transfer:
    return replace(copy, step=partitions if copy.step else 0)


def _buffers(plan: Plan, inner: list[ValueSpec], partitions: int) -> list[Buffer]:
    """Those of the whole chain for the entire run, and one for every value between partitions, packed."""
    device = plan.partitions[0].device
    held = [replace(buffer, first=0, last=partitions) for buffer in plan.buffers]
    held += [Buffer(spec.name, device, 0, spec.nbytes, step, step + 1) for step, spec in enumerate(inner)]
    packing = pack(tuple(Interval(buffer.first, buffer.last, buffer.nbytes) for buffer in held))
    return [replace(buffer, offset=offset) for buffer, offset in zip(held, packing.offsets, strict=True)]
