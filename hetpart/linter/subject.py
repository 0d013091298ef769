# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What rules look at: a model, as far as it could be read, priced and placed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hetpart.graph.external import external_locations
from hetpart.graph.walk import all_nodes, all_tensors, bodies_of
from hetpart.linter.rule import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import onnx

    from hetpart.cost_model.annotate import Costs
    from hetpart.errors import HetpartError
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.graph.ir import Graph, Op
    from hetpart.graph.load import LoadedModel
    from hetpart.plan.model import MachineReference, Plan


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and what is known of it. A stage that is missing could not be made, or was not asked for."""

    name: str
    """As the model was named."""
    loaded: LoadedModel
    imported: ImportedModel | None = None
    costs: Costs | None = None
    plan: Plan | None = None
    """The best under the budget, or the one that was kept where no budget is given."""
    kept_plan: Plan | None = None
    """Made for an earlier version of the model."""
    machine: MachineReference | None = None
    """What the model is priced for."""
    own_processor: bool = False
    """Whether that is the processor of this machine."""
    problem: HetpartError | None = None
    """Why the next stage could not be made."""
    budget_bytes: int | None = None
    """Of the accelerator, where one was asked for."""

    @property
    def stage(self) -> Stage:
        """The last that could be made."""
        made = (self.imported, self.costs, self.plan)
        return Stage(next((number for number, known in enumerate(made) if known is None), len(made)))

    @property
    def proto(self) -> onnx.ModelProto:
        """The file as it is."""
        return self.loaded.proto

    @property
    def graph(self) -> Graph:
        """The imported graph; rules of the stage GRAPH and later may ask for it."""
        assert self.imported is not None
        return self.imported.graph

    @property
    def planned(self) -> Plan:
        """The placement; rules of the stage PLAN may ask for it."""
        assert self.plan is not None
        return self.plan

    @cached_property
    def all_nodes(self) -> Sequence[onnx.NodeProto]:
        """The file's nodes, those inside others too."""
        return list(all_nodes(self.proto.graph.node))

    @cached_property
    def nodes(self) -> Mapping[str, onnx.NodeProto]:
        """The file's nodes by name, those inside others too."""
        return {node.name: node for node in self.all_nodes if node.name}

    @cached_property
    def makers(self) -> Mapping[str, onnx.NodeProto]:
        """The file's nodes by the values that they make."""
        return {name: node for node in self.all_nodes for name in node.output if name}

    def node_of(self, op: str, value: str = "") -> onnx.NodeProto | None:
        """The node that makes what the imported op ``op`` makes, or else has that name, or else makes ``value``."""
        known = self.ops.get(op)
        made = [self.graph.values[result].name for result in known.results] if known is not None else []
        found = next((self.makers[name] for name in made if name in self.makers), None)
        return found or self.nodes.get(op) or self.makers.get(value)

    @cached_property
    def uses(self) -> Sequence[Sequence[str]]:
        """Of the graph's nodes, the names that each and what is inside it read, outer ones among them."""
        return [tuple(_uses(node)) for node in self.proto.graph.node]

    @cached_property
    def tensors(self) -> Sequence[onnx.TensorProto]:
        """The file's tensors, those in nodes too."""
        return all_tensors(self.proto)

    @cached_property
    def locations(self) -> Mapping[str, Sequence[onnx.TensorProto]]:
        """The tensors that lie outside the file, by where they do; none where they lie nowhere as yet."""
        return {} if self.loaded.weights_apart else external_locations(self.tensors)

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """The imported graph's ops by name."""
        return {} if self.imported is None else {op.name: op for op in self.graph.ops}

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For every value of the imported graph, the ops that use it."""
        return self.graph.consumers()


def _uses(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for body in bodies_of(node):
        yield from (output.name for output in body.output)
        for inner in body.node:
            yield from _uses(inner)
