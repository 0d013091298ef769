# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Types of a node's outputs by ``onnx``'s own inference."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx
from onnx import numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from hetpart.errors import InvalidModelError
from hetpart.graph.contents import fingerprint
from hetpart.graph.kernel_shapes import kernel_shapes
from hetpart.graph.types import is_static, shape_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

_INFERENCE_ERRORS = (InferenceError, RuntimeError, ValueError, TypeError, IndexError, MemoryError)
"""What ``onnx`` raises where types do not fit an operator, or it has no answer."""


def kind_of_node(node: onnx.NodeProto) -> tuple[str | bytes, ...]:
    """What two nodes have in common that compute the same from the same."""
    attributes = [attribute.SerializeToString(deterministic=True) for attribute in node.attribute]
    return (node.domain, node.op_type, *attributes)


@dataclass(slots=True)
class InferredTypes:
    """Output types by what they were inferred from: nodes that are alike, in layers that are, are inferred once."""

    _known: dict[Hashable, tuple[onnx.TypeProto | None, ...]] = field(default_factory=dict[Any, Any])
    _schemas: dict[tuple[str, str], onnx.defs.OpSchema | None] = field(default_factory=dict[Any, Any])

    def of(
        self,
        node: onnx.NodeProto,
        inputs: dict[str, onnx.TypeProto],
        contents: Mapping[str, NDArray[Any]],
        opsets: Mapping[str, int],
    ) -> dict[str, onnx.TypeProto]:
        """Types by output name, of those that inference can tell.

        Args:
            node: One without subgraphs.
            inputs: Types by name.
            contents: Inputs whose elements are known.
            opsets: Of the model, the same in every call.

        Raises:
            InvalidModelError: the node breaks a rule of its operator, or its input shapes contradict it.
        """
        read, outputs = list(node.input), list(node.output)
        given = tuple([inputs[name].SerializeToString(deterministic=True) if name else None for name in read])
        known = tuple([fingerprint(contents.get(name)) for name in read]) if contents else ()
        key = (kind_of_node(node), given, known, tuple(map(bool, outputs)))
        types = self._known.get(key)
        if types is None:
            schema = self._schema(node, opsets)
            found = {} if schema is None else _inferred(schema, node, inputs, contents, opsets)
            types = self._known[key] = tuple([found.get(name) for name in outputs])
        return {name: made for name, made in zip(outputs, types, strict=True) if made is not None}

    def _schema(self, node: onnx.NodeProto, opsets: Mapping[str, int]) -> onnx.defs.OpSchema | None:
        """What ``onnx`` knows of the node's operator."""
        kind = (node.domain, node.op_type)
        if kind not in self._schemas:
            domain = "" if node.domain == "ai.onnx" else node.domain
            known = (node.op_type, opsets.get(domain, 1), domain)
            self._schemas[kind] = onnx.defs.get_schema(*known) if onnx.defs.has(*known) else None
        return self._schemas[kind]


def _inferred(
    schema: onnx.defs.OpSchema,
    node: onnx.NodeProto,
    inputs: dict[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    opsets: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    data = {name: numpy_helper.from_array(content) for name, content in contents.items()}
    imports = [onnx.OperatorSetIdProto(domain=key, version=value) for key, value in opsets.items()]
    try:
        found = infer_node_outputs(schema, node, inputs, input_data=data, opset_imports=imports)
        return kernel_shapes(node, inputs, contents, found)
    except ValidationError:
        _require_form(schema, node, imports)
    except InferenceError as error:
        _require_shapes(node, inputs, error)
    except _INFERENCE_ERRORS:
        pass
    return {}


def _require_shapes(node: onnx.NodeProto, inputs: Mapping[str, onnx.TypeProto], error: InferenceError) -> None:
    """Refuse a node whose input shapes, all known, contradict its operator: ONNX Runtime infers by the same rules."""
    _, mark, said = str(error).partition("[ShapeInferenceError]")
    if not mark or not all(map(is_static, inputs.values())):
        return
    listed = ", ".join(f"{name!r} {list(shape_of(kind) or ())}" for name, kind in inputs.items())
    raise InvalidModelError(
        f"node {node.name!r}: the inputs of {node.op_type} do not go together: {listed}:{said}",
        hint="bind the dimensions otherwise with --shape, or export the model again",
    ) from error


def _require_form(schema: onnx.defs.OpSchema, node: onnx.NodeProto, imports: list[onnx.OperatorSetIdProto]) -> None:
    """Refuse a node that its operator does not allow whatever the types: ONNX Runtime reports those that do not fit."""
    unknown = {name: onnx.TypeProto() for name in node.input if name}
    with suppress(*_INFERENCE_ERRORS):
        try:
            infer_node_outputs(schema, node, unknown, opset_imports=imports)
        except ValidationError as error:
            raise InvalidModelError(
                f"node {node.name!r} is no {node.op_type} of opset {schema.since_version}: {error}",
                hint="the exporter or a later edit broke the node; `onnx.checker.check_model` shows the same",
            ) from error
