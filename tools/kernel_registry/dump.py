# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""Writes what this process's ONNX Runtime says into a file: ``python -m tools.kernel_registry.dump FILE``.

A process of its own, because ONNX Runtime dies of the call where a provider's libraries are missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

import msgspec
import onnx
import onnx.defs
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from tools.kernel_registry.records import Dump, Kernel, Operand, Schema, Standard

DOMAINS = ("", "ai.onnx.ml", "com.microsoft")
"""Others hold what ONNX Runtime makes for itself, as ``com.ms.internal.nhwc``, or what a user added."""
_RELU_VERSION = 14


def main() -> None:
    """Ask, and write the answer as JSON."""
    os.environ.pop("ALLOW_RELEASED_ONNX_OPSET_ONLY", None)  # it would let opsets pass that have no kernels yet
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(_dump()))


def _dump() -> Dump:
    return Dump(
        onnxruntime=onnxruntime.__version__,
        onnx=onnx.__version__,
        opsets={domain: _newest_opset(domain) for domain in DOMAINS},
        kernels=tuple(_kernels()),
        schemas=tuple(_schemas()),
        standards=tuple(_standards()),
    )


def _kernels() -> Iterator[Kernel]:
    for each in state.get_all_opkernel_def():
        if each.domain in DOMAINS:
            types = {name: tuple(kinds) for name, kinds in each.type_constraints.items()}
            first, last = each.version_range
            yield Kernel(each.provider, each.domain, each.op_name, first, last, types)


def _schemas() -> Iterator[Schema]:
    for each in state.get_all_operator_schema():
        if each.domain in DOMAINS:
            allowed = {one.type_param_str: tuple(one.allowed_type_strs) for one in each.type_constraints}
            inputs, outputs = (
                tuple(Operand(one.name, one.typeStr, allowed.get(one.typeStr, (one.typeStr,))) for one in side)
                for side in (each.inputs, each.outputs)
            )
            yield Schema(each.domain, each.name, each.since_version, inputs, outputs)


def _standards() -> Iterator[Standard]:
    newest = {(each.domain, each.name): each for each in onnx.defs.get_all_schemas()}
    for each in onnx.defs.get_all_schemas_with_history():
        if each.domain in DOMAINS:
            is_newest = newest[each.domain, each.name].since_version == each.since_version
            has_body = each.has_function or each.has_context_dependent_function
            yield Standard(each.domain, each.name, each.since_version, is_newest, has_body)


def _newest_opset(domain: str) -> int:
    start = max(each.since_version for each in state.get_all_operator_schema() if each.domain == domain)
    first = next(version for version in range(start, 0, -1) if _reads(domain, version))
    return max(takewhile(lambda version: _reads(domain, version), count(first)))


def _reads(domain: str, version: int) -> bool:
    """Whether ONNX Runtime takes a model that names ``version`` of ``domain``."""
    source, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [source], [result])
    opsets = {"": _RELU_VERSION} | {domain: version}
    imports = [helper.make_opsetid(*opset) for opset in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except state.Fail:
        return False
    return True


if __name__ == "__main__":
    main()
