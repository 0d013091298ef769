# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""ONNX's own tests of single ops, stretched to values of megabytes, in a session's own memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LARGE = 1 << 20
"""Elements that the largest input is stretched to, about."""
MOST = 1 << 23
"""Of an output: what makes more is tried with less."""
GROWN = 8
"""How many times what it was the largest tensor is at least."""
SMALL = 64
"""Elements up to which what a test is given is taken for a constant: axes, sizes, indices."""
AROUND = frozenset("fiu")
"""Kinds of dtype that Abs computes, which stands around the op."""

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class NodeTest:
    """A test of one op: its model, and what it is given."""

    name: str
    model: onnx.ModelProto
    given: Mapping[str, np.ndarray[Any, Any]]


def node_tests() -> list[NodeTest]:
    """Every test of ``onnx.backend.test`` of one node that takes tensors."""
    from onnx.backend.test.loader import load_model_tests

    found = (_loaded(case) for case in load_model_tests(kind="node"))
    return sorted((test for test in found if test is not None), key=lambda test: test.name)


def _loaded(case: Any) -> NodeTest | None:
    model = case.model
    if model is None or len(model.graph.node) != 1 or case.name.endswith("_expanded"):
        return None
    (given, _), *_ = case.data_sets
    standard = any(not each.domain for each in model.opset_import)
    tensors = standard and all(
        value.type.HasField("tensor_type") for value in (*model.graph.input, *model.graph.output)
    )
    arrays = dict(zip([value.name for value in model.graph.input], given, strict=True)) if tensors else {}
    plain = all(isinstance(array, np.ndarray) for array in arrays.values())
    return NodeTest(case.name, model, arrays) if arrays and plain else None


def stretched(test: NodeTest, rng: Random) -> tuple[onnx.ModelProto, Arrays] | None:
    """The test's op on larger tensors, and what it is given; ``None`` where none that was tried can be run."""
    ways = list(_larger(test))
    for given in rng.sample(ways, len(ways)):
        made = _results(_model(test.model, given, given), given)
        if made is not None and _is_large(made, test, given):
            model = _between(test.model, given, made)
            fed = {f"{name}_in" if _stands_around(array) else name: array for name, array in _fed(given).items()}
            again = _results(model, fed)
            alike = again is not None and [a.shape for a in again] == [a.shape for a in made]
            return (model, fed) if alike else None
    return None


def _larger(test: NodeTest) -> Iterator[Arrays]:
    """Inputs with every dimension of one size made longer, or the first of all."""
    arrays = {name: array for name, array in test.given.items() if array.ndim and array.dtype != np.int64}
    largest = max((array.size for array in arrays.values()), default=0)
    if not largest:
        return
    for size in sorted({side for array in arrays.values() for side in array.shape if side > 1}):
        most = max(_count(array, size) for array in arrays.values())
        factor = max(2, round((LARGE / largest) ** (1 / most)))
        yield {
            name: _tiled(array, [factor if side == size else 1 for side in array.shape])
            for name, array in test.given.items()
        }
    for whole in (False, True):
        factor = LARGE // largest
        chosen = test.given if whole else dict(list(test.given.items())[:1])
        yield {
            name: _tiled(array, [factor, *[1] * (array.ndim - 1)]) if name in chosen and array.ndim else array
            for name, array in test.given.items()
        }


def _count(array: np.ndarray[Any, Any], size: int) -> int:
    return max(1, array.shape.count(size))


def _tiled(array: np.ndarray[Any, Any], factors: list[int]) -> np.ndarray[Any, Any]:
    return np.tile(array, factors) if array.ndim else array


def _is_large(made: list[np.ndarray[Any, Any]], test: NodeTest, given: Arrays) -> bool:
    before = max(array.size for array in test.given.values())
    after = max(array.size for array in (*made, *given.values()))
    return after > GROWN * before and all(array.size < MOST for array in made)


def _fed(given: Arrays) -> Arrays:
    """What is no constant."""
    return {name: array for name, array in given.items() if array.size > SMALL}


def _stands_around(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in AROUND and array.size > SMALL


def _model(model: onnx.ModelProto, given: Arrays, fed: Arrays) -> onnx.ModelProto:
    """``model`` for larger inputs, of which those that are not ``fed`` are constants."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    graph = made.graph
    del graph.value_info[:]
    kinds = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    del graph.input[:]
    graph.input.extend(helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in fed.items())
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in given.items() if name not in fed)
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return made


def _between(model: onnx.ModelProto, given: Arrays, results: list[np.ndarray[Any, Any]]) -> onnx.ModelProto:
    """The same with an Abs before what it is given and behind what it makes."""
    made = _model(model, given, _fed(given))
    graph = made.graph
    before: list[onnx.NodeProto] = []
    for value in graph.input:
        if _stands_around(given[value.name]):
            before.append(helper.make_node("Abs", [f"{value.name}_in"], [value.name], name=f"before {value.name}"))
            value.name = f"{value.name}_in"
    behind: list[onnx.NodeProto] = []
    for value, result in zip(graph.output, results, strict=True):
        if _stands_around(result):
            behind.append(helper.make_node("Abs", [value.name], [f"{value.name}_out"], name=f"behind {value.name}"))
            value.name = f"{value.name}_out"
        for side in result.shape:
            value.type.tensor_type.shape.dim.add(dim_value=side)
    nodes = [*before, *graph.node, *behind]
    del graph.node[:]
    graph.node.extend(nodes)
    return made


def _results(model: onnx.ModelProto, fed: Arrays) -> list[np.ndarray[Any, Any]] | None:
    """What ONNX Runtime makes; ``None`` where it makes nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    results: list[np.ndarray[Any, Any]] | None = None
    with suppress(Exception):  # ONNX Runtime's kinds of error share no other class
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        results = session.run(None, fed)
    return results
