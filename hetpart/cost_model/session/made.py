"""Where what an op makes lies: in memory of its own, over an input, or where an input is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetpart.cost_model.session.forms import plain_made
from hetpart.cost_model.session.members import ends, product_form
from hetpart.cost_model.session.reuse import Made
from hetpart.cost_model.session.scratch.table import CONTRIB
from hetpart.cost_model.session.sequences import added, shares
from hetpart.cost_model.session.simplify import Simplified
from hetpart.cost_model.updates import UPDATES, VIEWS
from hetpart.devices import Provider
from hetpart.graph.ir import Graph, Op

IN_PLACE = frozenset({
    "BitCast", "Cast", "Celu", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax", "Relu", "Selu",
    "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh", "ThresholdedRelu", "Trilu",
})  # fmt: skip
"""Their kernels may write over their first input. ``tests/cost_model/test_session_memory.py`` asks ONNX Runtime."""
CONTRIB_IN_PLACE = frozenset({"MoE"})
"""The same of ``com.microsoft``."""
QUANTIZATION = frozenset({"DequantizeLinear", "QuantizeLinear"})
SHAPING = VIEWS - {"Dropout"}
"""Their output is where their first input is. A Dropout that is left, for its mask, copies."""
ALIASED: Mapping[str, Mapping[int, int]] = {"BatchNormalization": {1: 3, 2: 4}}
"""Outputs that lie where an input lies, whoever else reads that, by position: running means, and variances."""


def made_by(members: tuple[Op, ...], value: int, graph: Graph, simple: Simplified, provider: Provider) -> Made:
    """``value`` as the kernel of ``members`` makes it, which computes on plain values."""
    plain, last = plain_made(graph.values[value]), members[-1]
    first = last.inputs[0] if last.inputs else None
    parts = graph.values[value].parts
    if parts is not None:
        return replace(plain, parts=added(last, graph) if shares(last) else parts)
    source = _shaped_anew(members)
    if source is not None and not graph.values[source].is_constant:
        return replace(plain, view_of=simple.value(source))
    axis = _squeezed_axis(members, value, graph)
    if axis is not None and plain.form is not None:
        return replace(plain, form=(*plain.form[:axis], 1, *plain.form[axis:]), seen=plain.form)
    if len(members) > 1 or first is None or value in last.results[1:]:
        return _aliased(value, last, graph, simple) or replace(
            plain, form=product_form(members, graph) or plain.form, seen=plain.form
        )
    first = simple.value(first)
    flows = not graph.values[first].is_constant
    if flows and not last.domain and last.op_type in SHAPING:
        return replace(plain, view_of=first)
    return replace(plain, over=(first,) if flows and _overwrites(last, provider) else ())


def _squeezed_axis(members: tuple[Op, ...], value: int, graph: Graph) -> int | None:
    """The axis that a part has of a Split in place of Gathers, and that is squeezed away behind it.

    The part keeps its memory in the form that the Split makes it in.
    """
    if len(members) < 2 or ends(members) != members:
        return None
    whole, made = graph.values[members[0].uses[0]].shape or (), graph.values[value].shape or ()
    axis = members[0].attributes.get("axis", 0)
    return axis % len(whole) if isinstance(axis, int) and len(made) == len(whole) - 1 else None


def _shaped_anew(members: tuple[Op, ...]) -> int | None:
    """The integers that an op gives another shape, where nothing is left of the quantization around it."""
    inside = [op for op in members if op.op_type not in QUANTIZATION]
    first = members[0]
    if len(inside) != 1 or first.op_type != "DequantizeLinear" or inside[0].inputs[0] != first.results[0]:
        return None
    return first.inputs[0] if inside[0].op_type in SHAPING and not inside[0].domain else None


def _overwrites(op: Op, provider: Provider) -> bool:
    if op.domain:
        return op.domain == CONTRIB and op.op_type in CONTRIB_IN_PLACE
    return op.op_type in IN_PLACE or op.op_type in UPDATES[provider]


def _aliased(value: int, op: Op, graph: Graph, simple: Simplified) -> Made | None:
    """``value`` where it lies in an input; beside a weight it takes nothing."""
    position = ALIASED.get(op.op_type, {}).get(op.outputs.index(value)) if value in op.outputs else None
    source = None if position is None or op.domain else op.inputs[position]
    if source is None:
        return None
    plain = plain_made(graph.values[value])
    if graph.values[source].is_constant:
        return replace(plain, nbytes=0, form=None)
    return replace(plain, view_of=simple.value(source))
