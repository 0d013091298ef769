# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Ops of local functions, named after the call they are inlined for: a user knows calls, and each lies in a module.

The inliner forgets which call a node comes from. So every call is given a function of its own before, whose nodes have
the call's name before theirs, and what the call's metadata say where they say nothing themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from hetpart.graph.provenance import ORIGIN
from hetpart.graph.walk import all_nodes, fresh_name

Key = tuple[str, str, str]
"""Domain, name and overload: what a call and a function have in common."""

LONGEST = 400
"""Characters of a call's name up to which the names of its nodes begin with all of it."""


def key_of_call(node: onnx.NodeProto) -> Key:
    """Of the function that ``node`` calls, if it is a call."""
    return node.domain, node.op_type, node.overload


@dataclass(slots=True)
class CallSites:
    """The calls of a model, once each has a function of its own."""

    functions: Mapping[Key, onnx.FunctionProto]
    taken: set[str]
    """Names of nodes."""
    made: list[onnx.FunctionProto] = field(default_factory=list[onnx.FunctionProto])
    named: set[str] = field(default_factory=set[str])
    """Names of the nodes of functions."""

    @classmethod
    def apart(cls, model: onnx.ModelProto) -> CallSites:
        """Give every call in ``model`` a function of its own, whose nodes are named after it."""
        functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        sites = cls(functions, {node.name for node in all_nodes(model.graph.node)})
        for node in all_nodes(model.graph.node):
            sites._separate(node)
        del model.functions[:]
        model.functions.extend(reversed(sites.made))
        return sites

    def name_inlined(self, model: onnx.ModelProto) -> None:
        """Take off what the inliner adds to the names of nodes: they are one call's alone."""
        for node in all_nodes(model.graph.node):
            own = node.name.rpartition("__")[0]
            if own in self.named:
                node.name = own

    def _separate(self, call: onnx.NodeProto) -> None:
        function = self.functions.get(key_of_call(call))
        if function is None:
            return
        path = self._path(call)
        own = onnx.FunctionProto()
        own.CopyFrom(function)
        own.name = f"{function.name} {len(self.made)}"
        self.made.append(own)
        for place, node in enumerate(all_nodes(own.node)):
            node.name = fresh_name(f"{path}/{node.name.strip('/') or f'{node.op_type}_{place}'}", self.taken)
            self.named.add(node.name)
            _inherit(node, call, ORIGIN, f"{call.op_type} {call.name}")
            self._separate(node)
        call.op_type = own.name

    def _path(self, call: onnx.NodeProto) -> str:
        """What the names of its nodes begin with; of calls in calls in calls, the outer ones alone."""
        if call.name in self.named:
            return call.name if len(call.name) <= LONGEST else call.name[:LONGEST].rpartition("/")[0]
        return f"/{call.name.strip('/') or fresh_name(call.op_type, self.taken)}"


def _inherit(node: onnx.NodeProto, call: onnx.NodeProto, key: str, value: str) -> None:
    """Metadata of ``call`` where ``node`` has none, and ``value`` where neither has any of ``key``."""
    own = {entry.key for entry in node.metadata_props}
    given = {entry.key: entry.value for entry in call.metadata_props if entry.key not in own}
    if key not in own:
        given.setdefault(key, value)
    for name, told in given.items():
        node.metadata_props.add(key=name, value=told)
