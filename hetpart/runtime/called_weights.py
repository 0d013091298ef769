# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Weights of a partition that PyTorch runs: from their file, mapped into memory, or made of others by ONNX Runtime."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch

from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.types import dtype_name, nbytes_of
from hetpart.graph.walk import all_graphs, replace_items
from hetpart.plan.weights import reference_of
from hetpart.runtime.called_tensors import dtype_of, of_value
from hetpart.runtime.sessions import host_session
from hetpart.runtime.widened import in_float32, is_widened

if TYPE_CHECKING:
    from pathlib import Path

    from hetpart.runtime.lent import Lent


def constants(proto: onnx.ModelProto, weights: Path | None, lent: Lent) -> dict[str, torch.Tensor]:
    """What the calls in ``proto`` read that is neither given to the partition nor made by them, by name."""
    calls = [node for node in proto.graph.node if node.domain == CALL_DOMAIN]
    given = {value.name for value in proto.graph.input} | {name for node in calls for name in node.output}
    wanted = dict.fromkeys(name for node in calls for name in node.input if name and name not in given)
    held = {tensor.name: tensor for tensor in proto.graph.initializer}
    apart = [name for name in wanted if name in held and _is_in_file(held[name])]
    found = {name: of_value(lent[name]) if name in lent else _mapped(held[name], weights) for name in apart}
    return found | _computed(proto, [name for name in wanted if name not in found], weights, lent)


def _is_in_file(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def _mapped(tensor: onnx.TensorProto, weights: Path | None) -> torch.Tensor:
    """The weight where it lies. Writing to it, which no operator should, would change a copy of the page."""
    assert weights is not None
    reference, dtype = reference_of(tensor), dtype_name(tensor.data_type)
    nbytes, offset = nbytes_of(dtype, tensor.dims), int(reference.get("offset", "0"))
    if not prod(tensor.dims):
        return torch.empty(list(tensor.dims), dtype=dtype_of(dtype))
    raw = np.memmap(weights / reference["location"], np.uint8, "c", offset, (nbytes,))
    return torch.from_numpy(raw).view(dtype_of(dtype)).view(list(tensor.dims))


def _computed(proto: onnx.ModelProto, names: list[str], weights: Path | None, lent: Lent) -> dict[str, torch.Tensor]:
    """Small weights, and those that ops make of weights alone."""
    if not names:
        return {}
    others = onnx.ModelProto()
    others.CopyFrom(proto)
    for field in ("node", "input", "output", "value_info"):
        others.graph.ClearField(field)
    known = {value.name: value for value in proto.graph.value_info}
    others.graph.value_info.extend(value for name, value in known.items() if name not in names)
    others.graph.node.extend(node for node in proto.graph.node if node.domain != CALL_DOMAIN)
    others.graph.output.extend(known.get(name, onnx.ValueInfoProto(name=name)) for name in names)
    # ONNX Runtime drops the rest before it would look for what is lent.
    graphs = list(all_graphs(others.graph))
    read = {value.name for graph in graphs for value in graph.output}
    read |= {name for graph in graphs for node in graph.node for name in node.input}
    replace_items(others.graph.initializer, [held for held in others.graph.initializer if held.name in read])
    model = others.SerializeToString()
    session = host_session(in_float32(model) if is_widened(model) else model, weights, lent)
    made = session.run_with_ort_values(names, {})
    return {name: of_value(value) for name, value in zip(names, made, strict=True)}
