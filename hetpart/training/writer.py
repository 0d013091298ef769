# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""Writing to the graph of a step: names of its arguments, new ones, and calls behind all that it computes."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload
    from torch.fx import Graph, Node


PROGRESS, SEED, LOSS_SCALE = "progress", "seed", "loss_scale"
"""The arguments that a step gives itself, under these names: which update it makes, and what dropouts and gradients are
made with."""
_TAKEN = (PROGRESS, SEED, LOSS_SCALE, "self", "args", "kwargs")
"""What no argument of a model's is called."""


def identifier(name: str) -> str:
    """``name`` as a name of Python's in small letters, which are what the exporter makes of large ones."""
    found = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return f"_{found}" if found[:1].isdigit() else found


class Writer:
    """The graph of a step while it is written to."""

    def __init__(self, graph: Graph, known: Node) -> None:
        """``known`` is a node of ``graph`` whose content is fake."""
        self.graph = graph
        self._last = graph.find_nodes(op="placeholder")[-1]
        self._mode: Any = known.meta["val"].fake_mode
        for name in _TAKEN:
            self._free(name)

    def rename(self, node: Node, name: str) -> str:
        """Call an argument ``name``, or as much like it as the graph allows; returns what it is called."""
        node.name = node.target = self._free(identifier(name.removeprefix(".")))
        return node.name

    def own(self, node: Node, name: str) -> Node:
        """Call an argument by one of the names that a step gives arguments itself."""
        node.name = node.target = name
        return node

    def argument(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Node:
        """A new argument, called ``name`` as ``rename`` does."""
        with self.graph.inserting_after(self._last):
            self._last = self.graph.placeholder("given")
        self.rename(self._last, name)
        self._last.meta["val"] = self.fake(shape, dtype)
        return self._last

    def _free(self, name: str) -> str:
        """``name``, or one like it that nothing of the graph has; it is taken from now on."""
        return self.graph._graph_namespace.create_name(name, None)

    def fake(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of that form without content."""
        with self._mode:
            return torch.empty(list(shape), dtype=dtype)

    def call(self, target: OpOverload, args: tuple[Any, ...], content: Any, owner: str = "", **kwargs: Any) -> Node:
        """A call behind all that is there, of the module of the parameter ``owner``; ``content`` as its fake result."""
        with self.graph.inserting_before(self.graph.output_node()):
            node = self.graph.call_function(target, args, kwargs)
        node.meta |= _origin(owner) | {"val": content}
        return node

    def results(self, node: Node, owner: str = "") -> list[Node]:
        """Every tensor that ``node`` returns."""
        content = node.meta["val"]
        if not isinstance(content, tuple):
            return [node]
        made = list[Any]()
        for place, part in enumerate(content):
            with self.graph.inserting_before(self.graph.output_node()):
                made.append(self.graph.call_function(operator.getitem, (node, place)))
            made[-1].meta |= _origin(owner) | {"val": part}
        return made

    def result(self, nodes: Sequence[Node]) -> None:
        """Let the graph return ``nodes``, each a node of its own."""
        output, known = self.graph.output_node(), set[Any]()
        returned = list[Any]()
        for node in nodes:
            if node in known or node.op == "placeholder":
                copy = self.call(torch.ops.aten.clone.default, (node,), None)
                copy.meta = dict(node.meta)
                returned.append(copy)
            else:
                returned.append(node)
            known.add(node)
        output.args = (tuple(returned),)
        output.meta["val"] = tuple(node.meta["val"] for node in returned)
        self.graph.eliminate_dead_code()


def _origin(owner: str) -> dict[str, Any]:
    """That a node belongs to the module of a parameter."""
    module = owner.rpartition(".")[0]
    return {"nn_module_stack": {"": ("", "step"), module: (module, "parameter")} if module else {"": ("", "step")}}
