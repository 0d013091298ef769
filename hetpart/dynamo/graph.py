# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A graph that Dynamo handed over, as what is called in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind

from hetpart.dynamo.halves import laid_out
from hetpart.dynamo.overlapping import require_traced
from hetpart.dynamo.plans import Planner
from hetpart.dynamo.sets import WeightSets
from hetpart.frontend.dimensions import open_symbols
from hetpart.frontend.pins import pinned_weights, pinned_without_weights
from hetpart.pytorch.call import owned, shared, tensor_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from hetpart.dynamo.halves import Halves
    from hetpart.dynamo.ledger import Ledger
    from hetpart.dynamo.options import CompileOptions
    from hetpart.dynamo.program import GraphProgram
    from hetpart.frontend.model import ExportedModel
    from hetpart.partitioned import PartitionedModel
    from hetpart.runtime.session import Session


class CompiledGraph:
    """Runs a graph's computing half by a plan, and its end in PyTorch. It is planned when it is first called.

    Args:
        halves: Of the graph.
        traced: The computing half as a program.
        exported: The same in ONNX operators.
        bases: Elements of arguments that stand for several, by place.
        options: Of ``torch.compile``.
        ledger: What is left of the budget.
    """

    _boxed_call = True
    """It is called with one list: AOTAutograd's convention."""

    def __init__(
        self,
        halves: Halves,
        traced: GraphProgram,
        exported: ExportedModel,
        bases: Mapping[int, int],
        options: CompileOptions,
        ledger: Ledger,
    ) -> None:
        self._bases = bases
        self._halves, self._traced, self._running = halves, traced, options.running
        self._inputs = _inputs(exported.program)
        self._axes, self._scalars = _open_axes(exported), _scalars(traced)
        self._sets = WeightSets(Planner(exported, options, ledger), ledger, self._opened, self._pinned)

    def __call__(self, args: list[Any]) -> Any:
        """The graph's results for ``args``, its arguments."""
        require_traced(args, self._bases)
        for place, dtype in self._scalars.items():
            args[place] = args[place].to(dtype)
        weights = [args[place] for place in self._traced.weights]
        given = {name: args[place] for name, place in zip(self._inputs, self._traced.fed, strict=True)}
        sizes = {name: _size(args[self._traced.fed[value]], axis) for name, (value, axis) in self._axes.items()}
        made = _made(self._sets.of(weights, sizes).session(weights, sizes), given)
        tensors = [laid_out(*pair) for pair in zip(made, self._halves.made, strict=True)]
        return self._halves.tail(*(args[place] for place in self._halves.kept), *tensors)

    def _pinned(self, weights: Sequence[torch.Tensor]) -> dict[str, str]:
        return pinned_without_weights(self._traced.modules) | pinned_weights(self._traced.names, weights)

    def _opened(self, planned: PartitionedModel, weights: Sequence[torch.Tensor]) -> Session:
        held = {**dict(zip(self._traced.names, weights, strict=True)), **self._traced.constants}
        lent = {name: shared(weight) for name, weight in held.items()}
        return planned.session(weights=lent, **self._running)


def _inputs(program: ExportedProgram) -> list[str]:
    """Names of the arguments, in order."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def _scalars(traced: GraphProgram) -> dict[int, torch.dtype]:
    """Types of the graph's arguments of one number, by place.

    Dynamo traces a random number of Python's in PyTorch's default type, and calls the graph with it in float64.
    """
    nodes = {node.name: node for node in traced.program.graph.find_nodes(op="placeholder")}
    values = {place: nodes[name].meta["val"] for name, place in zip(_inputs(traced.program), traced.fed, strict=True)}
    tensors = {place: value for place, value in values.items() if isinstance(value, torch.Tensor)}
    return {place: value.dtype for place, value in tensors.items() if not value.dim()}


def _open_axes(exported: ExportedModel) -> dict[str, tuple[int, int | None]]:
    """Where the sizes stand that differ from call to call, by their names: the place of an input, and the axis.

    One that no axis is by itself is a number among the inputs: there is no axis.
    """
    nodes = {node.name: node for node in exported.original.graph.find_nodes(op="placeholder")}
    places = {name: place for place, name in enumerate(_inputs(exported.original))}
    numbers = {str(nodes[name].meta["val"]): place for name, place in places.items()}
    parts = {name: name.rpartition("_dim") for name in open_symbols(exported.loaded.proto)}
    return {
        name: (places[value], int(axis)) if value in places else (numbers[name], None)
        for name, (value, _, axis) in parts.items()
    }


def _size(given: Any, axis: int | None) -> int:
    return int(given) if axis is None else given.shape[axis]


def _made(session: Session, given: Mapping[str, Any]) -> list[torch.Tensor]:
    """What the model returns, in order."""
    read = {spec.name for spec in session.plan.inputs}
    feeds = {name: shared(value) for name, value in given.items() if name in read}
    results = session.run(None, feeds)
    return owned([tensor_of(array) for array in results], list(feeds.values()))
