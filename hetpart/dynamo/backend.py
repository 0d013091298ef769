# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""``torch.compile(model, backend="hetpart", options={"budget": "8GB"})``: what Dynamo calls with every graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn.attention import SDPBackend, sdpa_kernel

from hetpart.dynamo.graph import CompiledGraph
from hetpart.dynamo.halves import halved
from hetpart.dynamo.ledger import ledger_of
from hetpart.dynamo.names import Names
from hetpart.dynamo.options import CompileOptions
from hetpart.dynamo.overlapping import SameOverlap, Written, together
from hetpart.dynamo.program import program_of
from hetpart.errors import HetpartError, InvalidModelError
from hetpart.frontend.capture import Captured
from hetpart.frontend.checks import without_tokens
from hetpart.frontend.example import require_pytorch
from hetpart.frontend.exported import exported_from
from hetpart.frontend.mutating import write_copies
from hetpart.frontend.pinned_code import note_in_force
from hetpart.frontend.whole import left_whole

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

    from hetpart.dynamo.ledger import Ledger


def hetpart(
    graph_module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """A graph of Dynamo's, placed and run by a plan; what ``torch.compile`` calls.

    Args:
        graph_module: Of Dynamo.
        example_inputs: What it is called with first.
        options: Those of ``hetpart.partition`` that speak of no model, ``emulate``, ``emulate_link`` and ``on_plan``.
        mode: There is none.

    Raises:
        InvalidOptionError: an option is unknown.
        InvalidModelError: an operator cannot be run, or a tensor is not on the host.
        HetpartError: gradients are asked for.
    """
    asked = CompileOptions.of(options, mode)
    require_pytorch("the torch.compile backend hetpart")
    names = Names.of_the_call()
    called = _Called(_sources(graph_module, example_inputs, names), names)
    name = f"graph {graph_module.meta.get('dynamo_compile_id', '')}".strip()
    compiler = partial(_compiled, name=name, called=called, options=asked, ledger=ledger_of(options))
    write_copies(graph_module, name)
    refusal = partial(_refuse_training, name=name)
    compiled = aot_autograd(fw_compiler=refusal, bw_compiler=refusal, inference_compiler=compiler)
    # Attention in products and a softmax: its kernels have no ONNX operator of their own.
    with left_whole(), sdpa_kernel(SDPBackend.MATH):
        made = compiled(graph_module, example_inputs)
    return SameOverlap(made, called.written, called.sources) if called.written.places else made


@dataclass(frozen=True, slots=True)
class _Called:
    """What the user calls what is in a graph."""

    sources: list[str]
    """Names of the arguments, in order."""
    names: Names
    written: Written = field(default_factory=Written)


def _sources(graph_module: GraphModule, example_inputs: Sequence[Any], names: Names) -> list[str]:
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    given = zip(placeholders, example_inputs, strict=False)
    return [names.of_tensor(tensor, _source_name(node)) for node, tensor in given]


def _source_name(node: Node) -> str:
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def _refuse_training(graph_module: GraphModule, example_inputs: Sequence[Any], *, name: str) -> Callable[..., Any]:
    del graph_module, example_inputs
    raise HetpartError(
        f"{name} is to record gradients, and the torch.compile backend hetpart is for inference",
        hint="call the model within torch.no_grad() or torch.inference_mode()",
    )


def _compiled(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    name: str,
    called: _Called,
    options: CompileOptions,
    ledger: Ledger,
) -> Callable[..., Any]:
    """The graph that AOTAutograd made of Dynamo's, without changes of arguments, to be called in its place."""
    del example_inputs
    _require_host(module, name)
    without_tokens(module.graph)
    note_in_force(module.graph)
    called.written.take(module.graph, TracingContext.get().fw_metadata, len(called.sources))
    bases, halves = together(module.graph), halved(module)
    if not halves.made:
        return partial(_tail_alone, halves.tail, halves.kept)
    names, weights = _argument_names(module, called.sources), _weights(module)
    with unset_fake_temporarily(), tracing(TracingContext(None)):
        traced = program_of(halves.head, names, weights, called.names)
        exported = exported_from(Captured(traced.program, name))
    return CompiledGraph(halves, traced, exported, bases, options, ledger)


def _tail_alone(tail: GraphModule, kept: Sequence[int], *args: Any) -> Any:
    """A graph that computes nothing."""
    return tail(*(args[place] for place in kept))


def _weights(module: GraphModule) -> set[int]:
    """Places of the arguments that are weights and buffers of the model and are not changed."""
    metadata = TracingContext.get().fw_metadata
    if metadata is None:
        return set()
    placeholders = module.graph.find_nodes(op="placeholder")[len(metadata.tokens) :]
    tensors = {place for place, node in enumerate(placeholders) if isinstance(node.meta["val"], torch.Tensor)}
    changed = {place for place, info in enumerate(metadata.input_info) if info.mutates_data or info.mutates_metadata}
    weights = (set(metadata.static_input_indices) & tensors) - changed
    return {place + len(metadata.tokens) for place in weights}


def _argument_names(module: GraphModule, sources: Sequence[str]) -> list[str]:
    """What the user calls the arguments; what has no name, or that of another one, as it is called in the graph."""
    found: dict[str, None] = {}
    for node in module.graph.find_nodes(op="placeholder"):
        place = getattr(node.meta.get("desc"), "idx", None)
        named = sources[place] if isinstance(place, int) and place < len(sources) else ""
        found[node.name if not named or named in found else named] = None
    return list(found)


def _require_host(module: GraphModule, name: str) -> None:
    """Raise where a tensor lies elsewhere: a plan takes and gives all on the host."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise InvalidModelError(
                f"{name} has {node.name!r} ({node.target}) on {value.device}, and a plan begins on the host",
                hint="leave model and arguments on the cpu: the plan moves what runs on an accelerator",
            )
