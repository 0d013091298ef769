"""Dequantizers of their own for all who read what one makes: ONNX Runtime's ``EnsureUniqueDQForNodeUnit``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hetpart.cost_model.session.rewired.net import Net
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Op


def shares_any(simple: Simplified) -> bool:
    """Whether what some dequantizer makes is read more than once."""
    made = {op.results[0] for op in simple.ops if _dequantizes(op)}
    reads = Counter(simple.value(value) for op in simple.ops for value in op.uses) if made else Counter[int]()
    return any(reads[value] > 1 for value in made)


def unshare(net: Net) -> bool:
    """Put in one more for every reader but the first; whether there was any."""
    changed = False
    for _, op in [(key, op) for key, op in net.in_order() if _dequantizes(op)]:
        (made,) = op.results
        edges = [(key, place) for key in sorted(net.readers(made)) for place in _places(net.ops[key], made)]
        for key, place in edges[not net.is_open(made) :]:
            own = net.value_like(made)
            net.insert(replace(op, outputs=(own,)))
            reader = net.ops[key]
            net.set(key, replace(reader, inputs=(*reader.inputs[:place], own, *reader.inputs[place + 1 :])))
            changed = True
    return changed


def _dequantizes(op: Op) -> bool:
    return op.op_type == "DequantizeLinear" and not op.domain


def _places(op: Op, value: int) -> list[int]:
    return [place for place, read in enumerate(op.inputs) if read == value]
