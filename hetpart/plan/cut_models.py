"""One ONNX model per partition, cut from the whole by ``onnx_ir``'s own extraction.

Names of ops and values survive. Weights stay external references: no byte of them is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetpart.errors import InvalidModelError
from hetpart.plan.streamed import streamed_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    import onnx
    import onnx_ir

    from hetpart.plan.model import Partition, Plan

_LOWEST_IR_VERSION = 8
"""Older files must list initializers as graph inputs; ours never do."""
_HIGHEST_IR_VERSION = 13
"""The newest that ONNX Runtime 1.31 reads; what newer files may say besides, an op of a newer opset needs."""
WIDENED = "hetpart.widened"
"""Metadata of nodes in bfloat16 that the processor has no kernel for: there they compute in float32."""
EMPTY = "hetpart.empty"
"""Metadata of products of matrices without elements: ONNX Runtime's fusion with the sum behind them fails in a run."""
_NOTES = {WIDENED: "float32", EMPTY: "true"}
_DEVICE_KEY, _SECONDS_KEY = "hetpart.device", "hetpart.seconds"
"""Metadata of nodes, which Netron shows: where a node runs, and how long it is predicted to take there."""


def cut_models(
    proto: onnx.ModelProto,
    plan: Plan,
    widened: AbstractSet[str] = frozenset(),
    empty: AbstractSet[str] = frozenset(),
) -> Iterator[onnx.ModelProto]:
    """The model of every partition, in the plan's order.

    Args:
        proto: What the plan was made from: ``ImportedModel.proto``.
        plan: Its partitions name ops and values of ``proto``.
        widened: Names of the ops that compute in float32 where the processor runs them.
        empty: Names of the products of matrices without elements.
    """
    import onnx_ir as ir

    try:
        whole = ir.from_proto(proto)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise InvalidModelError(
            f"{plan.model.name}: the graph cannot be cut: {error}",
            hint="the model holds something onnx_ir does not read; report it with the model's structure",
        ) from error
    seconds = {one.op: one.seconds[one.device] for one in plan.decisions if one.device in one.seconds}
    for partition in plan.partitions:
        yield _extract(whole, partition, seconds, {WIDENED: widened, EMPTY: empty})


def streamed_model(proto: onnx.ModelProto, plan: Plan) -> onnx.ModelProto | None:
    """A model that returns every weight that ``plan`` streams, made from others where it is; ``None`` for none."""
    import onnx_ir as ir

    if not streamed_weights(plan):
        return None
    whole = ir.from_proto(proto)
    graph = ir.convenience.extract(whole.graph, inputs=[], outputs=list(streamed_weights(plan)))
    graph.name = f"{whole.graph.name or 'graph'}/streamed"
    return _proto(whole, graph)


def _extract(
    whole: onnx_ir.Model, partition: Partition, seconds: Mapping[str, float], noted: Mapping[str, AbstractSet[str]]
) -> onnx.ModelProto:
    import onnx_ir as ir

    graph = ir.convenience.extract(whole.graph, inputs=list(partition.inputs), outputs=list(partition.outputs))
    graph.name = f"{whole.graph.name or 'graph'}/{partition.id}"
    graph.doc_string = whole.graph.doc_string
    for node in graph:
        node.metadata_props[_DEVICE_KEY] = partition.device
        predicted = seconds.get(node.name or "")
        if predicted is not None:  # what is made of weights alone is no op
            node.metadata_props[_SECONDS_KEY] = f"{predicted:.6g}"
        node.metadata_props.update({key: _NOTES[key] for key, names in noted.items() if node.name in names})
    for name in partition.inputs:  # a streamed weight is an input and no weight
        graph.initializers.pop(name, None)
    return _proto(whole, graph)


def _proto(whole: onnx_ir.Model, graph: onnx_ir.Graph) -> onnx.ModelProto:
    import onnx_ir as ir

    version = min(max(whole.ir_version, _LOWEST_IR_VERSION), _HIGHEST_IR_VERSION)
    proto = ir.to_proto(ir.Model(graph, ir_version=version, **_described(whole)))
    # The extraction gathers weights in a set: their order is that of addresses in memory.
    proto.graph.initializer.sort(key=lambda tensor: tensor.name)
    proto.graph.value_info.sort(key=lambda value: value.name)
    return proto


def _described(whole: onnx_ir.Model) -> dict[str, Any]:
    """What the model says of itself: a session over its parts says the same."""
    return {
        "producer_name": whole.producer_name,
        "producer_version": whole.producer_version,
        "domain": whole.domain,
        "model_version": whole.model_version,
        "doc_string": whole.doc_string,
        "metadata_props": dict(whole.metadata_props),
    }
