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


_MOST_TOLD = 64
"""Elements of floats that may tell a size: scales and limits are few, biases and tables are more."""


@dataclass(slots=True)
class Marks:
    """Numbers for what is known of values: those of one number have one type, and one content where that tells sizes.

    What was numbered is kept, so that it is known again by its identity.
    """

    _by_meaning: dict[Hashable, int] = field(default_factory=dict[Any, int])
    _by_identity: dict[tuple[int, int], tuple[object, object, int]] = field(default_factory=dict[Any, Any])

    def of(self, type_: onnx.TypeProto, content: NDArray[Any] | None) -> int:
        """The number of a value."""
        found = self._by_identity.get((id(type_), id(content)))
        if found is None:
            told = content if content is not None and tells_sizes(content) else None
            meaning = type_.SerializeToString(deterministic=True), fingerprint(told)
            number = self._by_meaning.setdefault(meaning, len(self._by_meaning))
            found = self._by_identity[id(type_), id(content)] = type_, content, number
        return found[2]


def tells_sizes(content: NDArray[Any]) -> bool:
    """Whether a type may depend on the elements."""
    return content.dtype.kind != "f" or content.size <= _MOST_TOLD


@dataclass(slots=True)
class Schemas:
    """What ``onnx`` knows of operators, in the versions that a model imports."""

    opsets: dict[str, int]
    _known: dict[tuple[str, str], onnx.defs.OpSchema | None] = field(default_factory=dict[Any, Any])
    _imports: list[onnx.OperatorSetIdProto] = field(init=False)

    def __post_init__(self) -> None:
        self._imports = [onnx.OperatorSetIdProto(domain=key, version=value) for key, value in self.opsets.items()]

    def infer(
        self, node: onnx.NodeProto, inputs: dict[str, onnx.TypeProto], contents: Mapping[str, NDArray[Any]]
    ) -> dict[str, onnx.TypeProto]:
        """Types of the node's outputs by name, of those that inference can tell.

        Args:
            node: One without subgraphs.
            inputs: Types by name.
            contents: Inputs whose elements are known.

        Raises:
            InvalidModelError: the node breaks a rule of its operator, or its input shapes contradict it.
        """
        schema = self._of(node)
        return {} if schema is None else _inferred(schema, node, inputs, contents, self._imports)

    def _of(self, node: onnx.NodeProto) -> onnx.defs.OpSchema | None:
        kind = (node.domain, node.op_type)
        if kind not in self._known:
            domain = "" if node.domain == "ai.onnx" else node.domain
            known = (node.op_type, self.opsets.get(domain, 1), domain)
            self._known[kind] = onnx.defs.get_schema(*known) if onnx.defs.has(*known) else None
        return self._known[kind]


def _inferred(
    schema: onnx.defs.OpSchema,
    node: onnx.NodeProto,
    inputs: dict[str, onnx.TypeProto],
    contents: Mapping[str, NDArray[Any]],
    imports: list[onnx.OperatorSetIdProto],
) -> dict[str, onnx.TypeProto]:
    data = {name: numpy_helper.from_array(content) for name, content in contents.items()}
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
