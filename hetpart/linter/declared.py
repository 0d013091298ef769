# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Types that a file declares, beside those that its operators make."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from hetpart.graph.types import dtype_of, shape_of


def inferred_types(model: onnx.ModelProto) -> Iterator[tuple[str, str, str]]:
    """Values whose declared type contradicts what is inferred from the inputs: name, declared type, inferred type."""
    graph = model.graph
    declared = {value.name: value.type for value in (*graph.value_info, *graph.output) if value.name}
    inputs = {value.name for value in graph.input}
    for name, found in _inferred(model).items():
        if name in declared and name not in inputs and _contradict(declared[name], found):
            yield name, _text(declared[name]), _text(found)


def _inferred(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Nothing where inference itself refuses the model: import says why."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for output in bare.graph.output:
        output.ClearField("type")
    try:
        found = onnx.shape_inference.infer_shapes(bare, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return {}
    return {value.name: value.type for value in (*found.graph.value_info, *found.graph.output)}


def _contradict(declared: onnx.TypeProto, found: onnx.TypeProto) -> bool:
    if dtype_of(declared) and dtype_of(found) and dtype_of(declared) != dtype_of(found):
        return True
    ours, theirs = shape_of(declared), shape_of(found)
    if ours is None or theirs is None:
        return False
    if len(ours) != len(theirs):
        return True
    return any(one is not None and other is not None and one != other for one, other in zip(ours, theirs, strict=True))


def _text(type_proto: onnx.TypeProto) -> str:
    shape = shape_of(type_proto)
    sizes = "[…]" if shape is None else str([size if size is not None else "?" for size in shape]).replace("'", "")
    return f"{dtype_of(type_proto) or 'a value'} {sizes}"
