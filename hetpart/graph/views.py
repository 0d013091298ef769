# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Other libraries' views of a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetpart.graph.ir import Graph


def to_networkx(graph: Graph) -> Any:
    """A ``networkx.MultiDiGraph`` with an op per node, by name, and an edge per use of a value between two ops.

    Nodes carry ``op_type``, ``domain`` and ``scope``; edges ``value``, ``nbytes``, ``dtype`` and ``shape``. Weights and
    graph inputs have no op behind them and so no edge.
    """
    import networkx

    view = networkx.MultiDiGraph(name=graph.name)
    for op in graph.ops:
        view.add_node(op.name, op_type=op.op_type, domain=op.domain, scope=op.scope)
    for op in graph.ops:
        for used in op.uses:
            value = graph.values[used]
            if value.producer is not None:
                view.add_edge(
                    graph.ops[value.producer].name,
                    op.name,
                    value=value.name,
                    nbytes=value.nbytes,
                    dtype=value.dtype,
                    shape=value.shape,
                )
    return view
