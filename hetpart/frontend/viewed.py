# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Views of what lies otherwise in memory once the operator that makes it is in parts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch.fx import traceback
from torch.fx.experimental import _config as symbolic_config

from hetpart.frontend.composite import looked_up_once
from hetpart.frontend.kept import graphs_of
from hetpart.frontend.layouts import layouts_unasked, sharing_unasked
from hetpart.frontend.said import quiet
from hetpart.frontend.whole import left_whole

_VIEW = torch.ops.aten.view.default
_FREE = torch.ops.aten.reshape.default
_REFUSED = "Cannot view a tensor"


@contextmanager
def taking_apart() -> Generator[None]:
    """Within it PyTorch takes programs apart: it says nothing, and asks no size for the sake of how memory lies."""
    settings = (symbolic_config.patch(backed_size_oblivious=True), layouts_unasked(are_shared=False), sharing_unasked())
    with quiet(), traceback.preserve_node_meta(), settings[0], settings[1], settings[2], left_whole(), looked_up_once():
        yield


def lies_otherwise(error: ValueError) -> bool:
    """Whether ``error`` is PyTorch's of a view that the strides do not allow."""
    return _REFUSED in str(error)


@contextmanager
def freely_viewed(program: torch.export.ExportedProgram) -> Generator[torch.export.ExportedProgram]:
    """``program`` without writes in place, whose views copy within where they must.

    The trace has no copy where ``contiguous`` found the tensor so already, as what attention makes is when it is
    transposed: the kernel lays it out as the query, and its parts do not.
    """
    with taking_apart():
        program = program.run_decompositions({})
    views = [node for module in graphs_of(program) for node in module.graph.nodes if node.target is _VIEW]
    for node in views:
        node.target = _FREE
    try:
        yield program
    finally:
        for node in views:
            node.target = _VIEW
