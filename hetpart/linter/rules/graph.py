# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""HPG: whether the graph is one, and holds what it needs and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetpart.graph.ir import ValueRole
from hetpart.graph.types import dtype_name, nbytes_of
from hetpart.graph.walk import all_nodes
from hetpart.linter.content import same_content
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import onnx

    from hetpart.linter.subject import Subject

WORTH_FOLDING = 2**20
"""Bytes of a result that is worth folding at export."""
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})


@rule(
    "HPG001", "unnamed-node", Severity.NOTE, Stage.FILE, default=False,
    hint="have the exporter name nodes, so that reports and pins can",
)  # fmt: skip
def unnamed_node(subject: Subject) -> Iterator[Mark]:
    """Nodes without a name.

    ## What it does
    Counts the nodes of the file that have no name.

    ## Why is this bad
    Reports, pins and profiles call a node by its name. hetpart makes one up where there is none, and the next export
    may make up another.

    ## Example
    `helper.make_node("Add", ["x", "y"], ["z"])`

    ## Use instead
    `helper.make_node("Add", ["x", "y"], ["z"], name="residual/add")`
    """
    nodes = list(all_nodes(subject.proto.graph.node))
    unnamed = [node for node in nodes if not node.name]
    if unnamed:
        first = _named(unnamed[0])
        yield Mark(f"{len(unnamed)} of {format_count(len(nodes), 'node')} have no name, the first being {first}")


@rule(
    "HPG002", "duplicate-node-name", Severity.WARNING, Stage.FILE,
    hint="give every node a name of its own: ONNX Runtime refuses to load models where two share one",
)  # fmt: skip
def duplicate_node_name(subject: Subject) -> Iterator[Mark]:
    """Two nodes of the same name.

    ## What it does
    Looks for names that several nodes of the graph have.

    ## Why is this bad
    ONNX Runtime refuses such a model ("two nodes with same node name"), though the ONNX checker passes it. hetpart
    renames them, and a pin or a report then means one of them only.

    ## Example
    Two `Add` nodes that are both called `add`.

    ## Use instead
    `add` and `add_1`.
    """
    for name, times in Counter(node.name for node in subject.proto.graph.node if node.name).items():
        if times > 1:
            yield Mark(f"{times} nodes are called {name!r}", op=name)


@rule(
    "HPG003", "dead-node", Severity.WARNING, Stage.FILE,
    hint="remove it, or return what it makes; `onnxsim` and exporters' optimisers remove dead nodes",
)  # fmt: skip
def dead_node(subject: Subject) -> Iterator[Mark]:
    """A node whose results nobody reads.

    ## What it does
    Finds nodes none of whose outputs is an output of the graph or an input of another node, and says how many nodes
    serve nothing but them.

    ## Why is this bad
    It takes time in every tool that reads the model, and where it was meant to be returned the model is wrong.

    ## Example
    An exported debugging statement: `ReduceMean` of a hidden state whose result goes nowhere.

    ## Use instead
    Remove it before the export.
    """
    graph = subject.proto.graph
    live = _live(subject)
    if len(live) == len(graph.node):
        return
    read = {name for names in subject.uses for name in names} | _returned(graph)
    dead = [node for place, node in enumerate(graph.node) if place not in live]
    ends = [node for node in dead if read.isdisjoint(node.output)]
    for node in ends:
        only = f"; {format_count(len(dead), 'node')} in all serve nothing else" if len(ends) == 1 < len(dead) else ""
        yield Mark(
            f"{_named(node)} makes {_quoted(node.output)}, which nothing reads{only}", anchor=_value(node), op=node.name
        )


@rule(
    "HPG004", "unused-initializer", Severity.WARNING, Stage.FILE,
    hint="remove it: `onnx.utils.extract_model` or the exporter's optimiser leaves it out",
)  # fmt: skip
def unused_initializer(subject: Subject) -> Iterator[Mark]:
    """A weight that no node reads.

    ## What it does
    Finds initializers that are neither read nor returned.

    ## Why is this bad
    It makes the file larger, and ONNX Runtime reads it when a session loads.

    ## Example
    The pooler's weight of a BERT that was exported without its pooler.

    ## Use instead
    Export only what the outputs need.
    """
    graph = subject.proto.graph
    used = {name for names in subject.uses for name in names} | _returned(graph)
    for tensor in graph.initializer:
        if tensor.name not in used:
            nbytes = nbytes_of(dtype_name(tensor.data_type), tensor.dims)
            yield Mark(f"no node reads the initializer {tensor.name!r} of {format_bytes(nbytes)}", anchor=tensor.name)


@rule(
    "HPG008", "unfolded-constant", Severity.NOTE, Stage.GRAPH, default=False,
    hint="fold it when the model is exported",
)  # fmt: skip
def unfolded_constant(subject: Subject) -> Iterator[Mark]:
    """A large tensor that is computed from weights alone.

    ## What it does
    Finds results of a megabyte and more that no input decides.

    ## Why is this bad
    Every session computes it when it loads, and holds both the weight and what is made of it until then.

    ## Example
    `Transpose` of a weight in front of a `MatMul`.

    ## Use instead
    The transposed weight.
    """
    graph = subject.graph
    views = {name for node in subject.proto.graph.node if node.op_type in _VIEWS for name in node.output}
    for value in graph.values:
        if value.name in views:
            continue
        if value.role is ValueRole.DERIVED and value.nbytes >= WORTH_FOLDING and subject.readers[value.id]:
            made = f" from {value.sources[0]!r}" if value.sources else ""
            yield Mark(
                f"{value.name!r} of {format_bytes(value.nbytes)} is computed{made} whenever a session loads",
                anchor=value.name,
            )


@rule(
    "HPG009", "duplicate-initializer-content", Severity.WARNING, Stage.FILE,
    hint="share one initializer: tie the parameters in the model, or deduplicate the file",
)  # fmt: skip
def duplicate_initializer_content(subject: Subject) -> Iterator[Mark]:
    """Weights of the same content under several names.

    ## What it does
    Compares the content of large initializers that agree in type and shape. Files are read in samples first; what
    agrees in those is read whole, up to a limit.

    ## Why is this bad
    Each is loaded, and counted against the budget, on its own.

    ## Example
    A tied embedding that the exporter wrote twice, once for the lookup and once for the logits.

    ## Use instead
    One initializer that both nodes read.
    """
    for group in same_content(subject.loaded):
        first, *others = group
        nbytes = nbytes_of(dtype_name(first.data_type), first.dims)
        yield Mark(
            f"{_quoted([tensor.name for tensor in group])} hold the same {format_bytes(nbytes)}: "
            f"{format_bytes(nbytes * len(others))} too much",
            anchor=first.name,
        )


def _live(subject: Subject) -> set[int]:
    """Positions of nodes that some output of the graph needs."""
    graph = subject.proto.graph
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    waiting = [makers[output.name] for output in graph.output if output.name in makers]
    live = set(waiting)
    while waiting:
        needed = {makers[name] for name in subject.uses[waiting.pop()] if name in makers} - live
        live |= needed
        waiting += needed
    return live


def _returned(graph: onnx.GraphProto) -> set[str]:
    return {output.name for output in graph.output}


def _value(node: onnx.NodeProto) -> str:
    """What stands for a node without a name: a value that it makes."""
    return "" if node.name else next(filter(None, node.output), "")


def _named(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else f"a {node.op_type} without a name"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names if name)
