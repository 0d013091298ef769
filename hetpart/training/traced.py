# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false, reportPrivateImportUsage=false
"""How PyTorch is asked to trace what a step computes."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, traceback
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import checkpoint

from hetpart.errors import HetpartError, InvalidModelError
from hetpart.frontend.recurrent import LAYERS
from hetpart.frontend.said import quiet, reason_of, without_graphs
from hetpart.frontend.traceable import Traceable, know_forms
from hetpart.frontend.tracers import unwound
from hetpart.frontend.whole import left_whole

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from hetpart.frontend.example import Example

_NO_KERNEL = "an autograd kernel was not registered"
_NO_FORMULA = re.compile(
    rf"(\S+): {_NO_KERNEL}|backward through (\S+) but no autograd|derivative for (\S+) is not implemented"
)
"""What PyTorch says of the operator, by how it was defined."""
_WRITTEN_OVER = "modified by an inplace operation"
"""Of what PyTorch says of a gradient that is to be taken of what is no more."""
_GRADIENT_INSIDE = "fake tensor in the exported"
"""Of what PyTorch says where code takes gradients."""


@contextmanager
def traceable() -> Generator[None]:
    """Operators as they are differentiated in parts: fused attention and recurrent layers have no other backward."""
    plain: Any = torch.backends.mkldnn.flags(enabled=False)
    know_forms()
    with ExitStack() as within:
        for one in (quiet(logging.CRITICAL), without_graphs(), sdpa_kernel(SDPBackend.MATH), plain, left_whole()):
            within.enter_context(one)
        for one in (torch.inference_mode(mode=False), torch.enable_grad(), traceback.preserve_node_meta()):
            within.enter_context(one)
        within.enter_context(_formulas())
        yield


@contextmanager
def _formulas() -> Generator[None]:
    """Refuse what has no gradient: an operator without a formula, of which PyTorch warns, and what was written over."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=f".*{_NO_KERNEL}")
            yield
    except (RuntimeError, Warning) as error:
        if _WRITTEN_OVER in str(error):
            raise InvalidModelError(
                "the loss writes over a tensor whose content its gradient needs, which eager PyTorch refuses too",
                hint="write to a copy of it: clone()",
            ) from error
        found = _NO_FORMULA.search(str(error))
        if found is None:
            raise
        operator = found[found.lastindex or 0].removesuffix(".default").replace("::", ".", 1)
        raise InvalidModelError(
            f"the gradient of the loss goes through {operator}, and PyTorch has no formula for its own",
            hint="give it one by torch.library.register_autograd, or detach() what it is given",
        ) from error


@contextmanager
def _inferring_without_gradients() -> Generator[None]:
    """Let ``torch.inference_mode`` do what ``torch.no_grad`` does, of which a trace keeps that nothing is recorded.

    Of inference tensors it keeps nothing, and what they freeze would be trained.
    """
    kind: Any = torch.inference_mode
    before = kind.__enter__, kind.__exit__

    def enter(self: Any) -> None:
        self.recorded = torch.is_grad_enabled()
        torch.set_grad_enabled(not self.mode)

    def leave(self: Any, *_: object) -> None:
        torch.set_grad_enabled(self.recorded)

    kind.__enter__, kind.__exit__ = enter, leave
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = before


@contextmanager
def _computed_once() -> Generator[None]:
    """Let what is under ``torch.utils.checkpoint`` be what it computes: parts of parts would be without gradients."""
    checkpoints: Any = checkpoint
    before = checkpoints._checkpoint_without_reentrant_generator
    checkpoints._checkpoint_without_reentrant_generator = _plain
    try:
        yield
    finally:
        checkpoints._checkpoint_without_reentrant_generator = before


def _plain(*_: Any, **__: Any) -> Generator[None]:
    yield


def exported(module: torch.nn.Module, example: Example, name: str) -> ExportedProgram:
    """The program of ``module``, which computes the loss of a model called ``name``.

    Raises:
        InvalidModelError: ``torch.export`` refuses it.
    """
    try:
        with unwound(), Traceable(), _inferring_without_gradients(), _computed_once():
            program = torch.export.export(module, example.args, strict=False)
    except HetpartError:
        raise
    except Exception as error:  # torch.export raises what the model's own code raises
        why = reason_of(error)
        if _GRADIENT_INSIDE in why:
            raise InvalidModelError(
                f"the loss of {name} takes gradients itself, and a step takes those of the loss alone",
                hint="leave out backward() and torch.autograd.grad: a penalty of gradients needs their formula",
            ) from error
        raise InvalidModelError(
            f"torch.export refuses the loss of {name}: {why}",
            hint="loss_fn(model, *batch) needs code without data-dependent branches, such as a torch.distributions has "
            "unless it is made with validate_args=False, and returns a tensor",
        ) from error
    _require_dropped(program)
    _require_shared_generator(program)
    return program


def _require_shared_generator(program: ExportedProgram) -> None:
    """See that nothing is drawn from a ``torch.Generator`` of the model's own: no trace can, and PyTorch may crash."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, GraphModule))
    for node in (node for graph in graphs for node in graph.nodes):
        if node.kwargs.get("generator") is not None:
            raise InvalidModelError(
                f"the loss draws numbers from a torch.Generator ({node.target}), and a step keeps none",
                hint="leave out generator=, or hand the numbers over in the batch",
            )


def _require_dropped(program: ExportedProgram) -> None:
    """See that no layers are left in one call that drop out between each other: PyTorch would not."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, GraphModule))
    for node in (node for graph in graphs for node in graph.nodes if node.target in LAYERS):
        names = (one.name for one in node.target._schema.arguments)
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        if given["train"] and given["dropout"] and given["num_layers"] > 1:
            raise InvalidModelError(
                f"{node.name} has {given['num_layers']} layers with a dropout of {given['dropout']} between them",
                hint="call torch.nn.LSTM, GRU or RNN, or its function without keywords: a step takes those apart",
            )
