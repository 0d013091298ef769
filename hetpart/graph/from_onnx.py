"""ONNX model → Graph. The weights' bytes are never read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx

from hetpart.errors import InvalidOptionError
from hetpart.graph import rewrite
from hetpart.graph.build import GraphBuilder
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.constants import settle_constants
from hetpart.graph.expand import Expander
from hetpart.graph.fold import evaluate
from hetpart.graph.functions import inline_functions
from hetpart.graph.index_ranges import index_ranges
from hetpart.graph.ir import Graph, Op, Shape, ValueRole
from hetpart.graph.kernel_rules import KernelRules
from hetpart.graph.legality import name_nodes, require_legal, sorted_nodes
from hetpart.graph.listing import Listing, listed_nodes
from hetpart.graph.load import LoadedModel, load
from hetpart.graph.notes import examples_of, states_of, together_of
from hetpart.graph.shapes import bind_dimensions, bind_results
from hetpart.graph.types import shape_of
from hetpart.graph.unsequence import unsequence
from hetpart.units import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    import onnx_ir

    from hetpart.graph.facts import Facts
    from hetpart.graph.listing import ListedNode

_SHOWN = 5
_MOST_NESTED = 20
"""A body may hold ops that have bodies."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModel:
    """A model as the rest of hetpart sees it."""

    graph: Graph
    proto: onnx.ModelProto
    """What the partitions are cut from: dimensions bound, functions inlined, shape arithmetic folded, values typed."""
    name: str
    path: Path | None
    folder: Path | None
    passthrough: Mapping[str, str]
    """Outputs that are graph inputs; they are not among the graph's outputs."""
    returned: tuple[str, ...]
    """The model's outputs, in its order."""
    notes: tuple[str, ...]


def import_onnx(
    model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model | LoadedModel,
    dimensions: Mapping[str, int] | None = None,
    rules: KernelRules | None = None,
) -> ImportedModel:
    """Read, check, bind, fold and type ``model``.

    An input that has an initializer is a weight: its value in the file is what a plan runs with. Ops of which
    ``rules`` say so are replaced by the body of their operator, or are no derived weights.

    Raises:
        InvalidModelError: it cannot be read or breaks a rule of ONNX.
        UnboundDimensionsError: ``dimensions`` leaves an input dimension without a number.
        InvalidOptionError: ``dimensions`` names one that the model does not have, or gives one a size that it cannot
            have.
    """
    loaded, nodes, notes = _legal(load(model))
    notes += loaded.notes
    _require_in_range(loaded, dimensions or {})
    bound = bind_dimensions(loaded.proto, {**loaded.sizes, **(dimensions or {})})
    called = {name for node in loaded.proto.graph.node if node.domain == CALL_DOMAIN for name in node.output}
    bind_results(loaded.proto, called, bound)
    notes += _example_sizes(loaded, dimensions or {})
    returned = tuple(value.name for value in loaded.proto.graph.output)
    if rewrite.detach_weights(loaded.proto):
        nodes = listed_nodes(loaded.proto.graph)
    passed = rewrite.detach_inputs(loaded.proto)
    facts = evaluate(loaded.proto, nodes, leaves=None if rules is None else rules.leaves)
    for settle in (unsequence, rewrite.scalar_ranges, rewrite.packed_identities):
        if settle(loaded.proto, facts):
            nodes = listed_nodes(loaded.proto.graph)
            facts = evaluate(loaded.proto, nodes, facts)
    notes += _contradicted(loaded.proto, facts)
    before = len(nodes)
    nodes = rewrite.apply(loaded.proto, nodes, facts)
    removed = before - len(nodes)
    if removed:
        notes.append(
            f"{removed} of {before} nodes only compute what bound dimensions decide, or nothing that is returned"
        )
    graph = _graph(loaded, nodes, facts)
    if rules is not None:
        graph = _expanded(loaded, facts, graph, rules.expands, notes)
    told = {"states": states_of(loaded.proto), "together": together_of(loaded.proto)}
    graph = replace(graph, dimensions=bound, examples=examples_of(loaded.proto), **told)
    graph = replace(graph, index_ranges=index_ranges(graph))
    return ImportedModel(graph, loaded.proto, loaded.name, loaded.path, loaded.folder, passed, returned, tuple(notes))


def _require_in_range(loaded: LoadedModel, dimensions: Mapping[str, int]) -> None:
    for name, size in dimensions.items():
        least, most = loaded.ranges.get(name, (0, None))
        if size != OPEN and not least <= size <= (size if most is None else most):
            wanted = f"at least {least}" if most is None else f"from {least} to {most}"
            raise InvalidOptionError(
                f"the dimension {name!r} cannot be {size}: {loaded.name} was exported for sizes {wanted}",
                hint="give such a size, or another torch.export.Dim in dynamic_shapes",
            )


def _example_sizes(loaded: LoadedModel, dimensions: Mapping[str, int]) -> list[str]:
    """That the user left sizes to those of the model's own example."""
    taken = {name: size for name, size in loaded.sizes.items() if name not in dimensions}
    listed = ", ".join(f"{name}={size}" for name, size in sorted(taken.items()))
    return [f"sizes as in the example arguments: {listed}; shape= binds others"] if taken else []


def _contradicted(model: onnx.ModelProto, facts: Facts) -> list[str]:
    """That outputs are declared in a shape which their ops do not make: what is planned for is what they make."""
    both = [(value.name, shape_of(value.type), shape_of(facts.type_of(value.name))) for value in model.graph.output]
    told = [
        f"{name!r} is declared {list(declared)} and computed {list(made)}"
        for name, declared, made in both
        if declared is not None and made is not None and _differ(declared, made)
    ]
    return [f"outputs with another shape than the file says: {', '.join(told[:_SHOWN])}"] if told else []


def _differ(declared: Shape, made: Shape) -> bool:
    if len(declared) != len(made):
        return True
    return any(None not in pair and pair[0] != pair[1] for pair in zip(declared, made, strict=True))


def _legal(loaded: LoadedModel) -> tuple[LoadedModel, Sequence[ListedNode], list[str]]:
    """The model in the one form that the rest reads, its nodes, and what the user should know of the difference."""
    loaded = inline_functions(loaded)
    settle_constants(loaded)
    listing = Listing.of(loaded.proto)
    require_legal(loaded, listing)
    read = {name for listed in listing.nodes for name in listed.uses}
    rewrite.drop_unread_weights(loaded.proto, listing.weights, read)
    nodes = sorted_nodes(loaded, listing.nodes)
    notes: list[str] = []
    renamed = name_nodes(loaded.proto)
    if renamed:
        notes.append(f"{renamed} node{'s' if renamed > 1 else ''} had no name of their own and got one")
    defaults = rewrite.fix_defaults(loaded.proto)
    if defaults:
        listed = ", ".join(defaults[:_SHOWN]) + (", …" if len(defaults) > _SHOWN else "")
        notes.append(f"inputs with a default value in the file keep it and cannot be fed: {listed}")
    return loaded, nodes, notes


def _expanded(
    loaded: LoadedModel, facts: Facts, graph: Graph, expands: Callable[[Op, Graph], bool], notes: list[str]
) -> Graph:
    """The graph with bodies in the place of ops that ``expands`` names, down to what it names no more."""
    expander = Expander(loaded.proto, expands)
    for _ in range(_MOST_NESTED):
        if not expander.expand(graph):
            break
        nodes = listed_nodes(loaded.proto.graph)
        facts = evaluate(loaded.proto, nodes, facts)
        nodes = rewrite.apply(loaded.proto, nodes, facts)
        graph = _graph(loaded, nodes, facts)
    notes += expander.notes
    return graph


def _graph(loaded: LoadedModel, nodes: Sequence[ListedNode], facts: Facts) -> Graph:
    proto = loaded.proto
    builder = GraphBuilder(loaded.name, facts.opsets, facts.types, facts.origins, facts.contents)
    for value in proto.graph.input:
        builder.value(value.name, ValueRole.INPUT)
    for tensor in proto.graph.initializer:
        builder.value(tensor.name, ValueRole.WEIGHT)
    for listed in nodes:
        if all(name in facts.constant for name in listed.outputs if name):
            inputs = [builder.values[builder.ids[name]] for name in listed.inputs if name]
            for name in filter(None, listed.outputs):
                builder.value(name, ValueRole.DERIVED, inputs=inputs)
            builder.match(listed)
        else:
            builder.op(listed, ValueRole.INPUT)
    inputs = [value.name for value in proto.graph.input]
    return builder.graph(inputs, [value.name for value in proto.graph.output], {})
