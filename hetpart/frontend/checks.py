# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Checks of what linear algebra made, as operators that return what they checked.

PyTorch takes ``linalg.inv`` apart as a call that returns a code of error, and a check that returns nothing: only what
returns something is in a plan.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph, Node

from hetpart.frontend.copying import CHECK, CHECKED
from hetpart.frontend.said import quiet

_ORDERED = torch.ops.higher_order.with_effects


def with_checks(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """``program`` with every check of linear algebra on the way of what it checks; a copy, where it has some."""
    if not any(True for _ in _checks(program.graph)):
        return program
    made = copy.deepcopy(program.graph_module)
    for node in list(_checks(made.graph)):
        _put_on_the_way(node)
    made.recompile()
    with quiet():
        return program._update(made, program.graph_signature)


def _checks(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op == "call_function" and node.target is CHECK)


def without_tokens(graph: Graph) -> None:
    """Put the checks in ``graph`` on the way that AOTAutograd orders by tokens: those come out as they went in."""
    for node in list(graph.nodes):
        if node.target is _ORDERED and node.args[1] is CHECK:
            token, _, *args = node.args
            with graph.inserting_before(node):
                _put_on_the_way(graph.call_function(CHECK, tuple(args), dict(node.kwargs)))
            for user in list(node.users):
                user.replace_all_uses_with(token)
                graph.erase_node(user)
            graph.erase_node(node)


def _put_on_the_way(check: Node) -> None:
    info, api_name = check.args
    assert isinstance(info, Node)
    maker: Any = info.args[0] if info.target is getitem else info
    for result in [user for user in maker.users if user.target is getitem and user is not info]:
        with check.graph.inserting_before(check):
            given = (result, info, api_name, check.kwargs["is_matrix"])
            checked = check.graph.call_function(CHECKED, given)
        checked.meta = dict(result.meta)
        result.replace_all_uses_with(checked, delete_user_cb=partial(_is_other, checked))
    check.graph.erase_node(check)


def _is_other(node: Node, user: Node) -> bool:
    return user is not node
