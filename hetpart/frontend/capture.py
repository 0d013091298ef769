# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""From a module, a GraphModule or a file to PyTorch's exported program: the first half of the one road."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.export.dynamic_shapes import _combine_args
from torch.fx import traceback
from torch.fx.experimental import _config as symbolic_config
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError, InvalidOptionError
from hetpart.frontend.asked import Asked, asked_dimensions, export_dimensions, require_axes, require_form
from hetpart.frontend.caches import HINT, know_caches, with_open_numbers
from hetpart.frontend.changed import notes_of_changes, watched
from hetpart.frontend.dense import require_dense, require_dense_results
from hetpart.frontend.example import Example
from hetpart.frontend.layouts import layouts_unasked, sharing_unasked, writes
from hetpart.frontend.mistakes import FAKE_HINT, GRADIENTS_HINT, hint_of_call, require_unscripted
from hetpart.frontend.mixed import TYPES_HINT
from hetpart.frontend.pinned_code import CUSTOM_KEY, in_force, noted_on_nodes, with_notes
from hetpart.frontend.said import quiet, reason_of, without_graphs
from hetpart.frontend.saved import load_program
from hetpart.frontend.traceable import Traceable, know_forms
from hetpart.frontend.tracers import Tracer, by_dynamo, by_running, differentiated, unwound
from hetpart.frontend.weights import has_content, identity

_TRACE_HINT = "torch.export.export(module, args, kwargs) says all of it"
_CONTAINER_HINT = "say what is in it: torch.export.register_dataclass(Kind), or give and return tuples and dicts"
_HINTS = {
    "Cache": HINT,
    "not a known type": _CONTAINER_HINT,
    "Unsupported input type": _CONTAINER_HINT,
    "classes.quantized": "give the model before it is quantised, or quantise the program that torch.export makes of it",
    "functorch": GRADIENTS_HINT,
    "fake tensor in the exported": "torch.autograd.grad(loss, x) in the place of loss.backward() and x.grad",
    "Constraints violated": (
        "the code makes a number of that size, or a loop of it: leave it out of dynamic_shapes, or give None for it,"
        " and an example of the size that the plan is for"
    ),
    "linalg_lstsq": "take the driver gelsy, or torch.linalg.pinv(a) @ b: with this one data decide what comes back",
    **dict.fromkeys(("UnsupportedOperator", "no fake impl"), FAKE_HINT),
    "DataDependentOutput": "compute with tensors: (a == b).all() in the place of torch.equal, isclose of allclose",
    "specialized integer": f"{_TRACE_HINT}; give sizes as numbers",
    "SymInt": "give the sizes as numbers; torch.export.Dim.DYNAMIC in dynamic_shapes leaves them open",
    **dict.fromkeys(("same dtype", "scalar type", "weight dtype", "src.dtype", "Type promoting"), TYPES_HINT),
    "data-dependent": f"{_TRACE_HINT}; it needs code without data-dependent branches",
}
"""By what PyTorch's reason speaks of."""
_UNSET = -123.0
"""What a buffer holds before it is filled; no frequency, position or mask is that."""


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A program, and what is known of where it comes from."""

    program: torch.export.ExportedProgram
    name: str
    source: torch.nn.Module | torch.export.ExportedProgram | None = None
    """What it was captured from: pins speak of its submodules."""
    tied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Second names of weights, with the first."""
    path: Path | None = None
    notes: tuple[str, ...] = ()
    asked: Asked = ()


def captured(model: object, example: Example) -> Captured:
    """``model`` as an exported program.

    Raises:
        InvalidModelError: the file is none, or ``torch.export`` refuses the module.
        InvalidOptionError: arguments are missing, or given where the program has its own.
    """
    if isinstance(model, torch.nn.Module):
        with unset_fake_temporarily():
            return _exported(model, example)
    for name in ("args", "kwargs", "dynamic_shapes"):
        if name in example.given:
            raise InvalidOptionError(
                f"{name} cannot be given with a program that is exported: it has its own",
                hint="give them to torch.export.export, or give the module itself",
            )
    if isinstance(model, torch.export.ExportedProgram):
        return Captured(model, _program_name(model), model, _tied_in(model))
    assert isinstance(model, str | PathLike)
    path = Path(model)
    program = load_program(path)
    return Captured(program, path.stem, tied=_tied_in(program), path=path)


def _program_name(program: torch.export.ExportedProgram) -> str:
    """The class of the module it was made from."""
    stacks = (node.meta.get("nn_module_stack") for node in program.graph.nodes)
    first = next((stack for stack in stacks if stack), None)
    return "program" if first is None else str(next(iter(first.values()))[1]).rpartition(".")[2]


def _exported(module: torch.nn.Module, example: Example) -> Captured:
    know_caches()
    require_unscripted(module, module)
    require_form(example.dynamic_shapes)
    name = type(module).__name__
    notes = ("the module is in training mode; module.eval() leaves out what only trains",) if module.training else ()
    require_dense(module, example, name)
    held, example = without_storage(module, told_apart(example))
    with watched(held) as changes:
        program = _program(held, example, name)
    notes += tuple(notes_of_changes(changes, program, name))
    require_dense_results(program, name)
    return Captured(program, name, module, tied_names(module), notes=notes, asked=asked_dimensions(held, example))


def told_apart(example: Example) -> Example:
    """``example`` with no tensor twice: the tracer takes two arguments that are one tensor for the last of them."""
    seen: set[int] = set()

    def once(tensor: torch.Tensor) -> torch.Tensor:
        again = id(tensor) in seen
        seen.add(id(tensor))
        return tensor.detach().clone() if again else tensor

    args, kwargs = pytree.tree_map_only(torch.Tensor, once, (example.args, dict(example.kwargs)))
    return replace(example, args=args, kwargs=kwargs)


def tied_names(module: torch.nn.Module) -> dict[str, str]:
    """Second names of parameters and buffers, with the first."""
    first: dict[int, str] = {}
    named = chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
    known = {name: first.setdefault(id(tensor), name) for name, tensor in named}
    return {name: kept for name, kept in known.items() if name != kept}


def _tied_in(program: torch.export.ExportedProgram) -> dict[str, str]:
    """The same of a program: each name has a tensor of its own, over the memory of the first.

    Tensors without content are tied where they are one: in a file all of them lie in one storage.
    """
    first: dict[tuple[Any, ...], str] = {}
    whose = {name: identity(held) if has_content(held) else (id(held),) for name, held in program.state_dict.items()}
    known = {name: first.setdefault(key, name) for name, key in whose.items()}
    return {name: kept for name, kept in known.items() if name != kept}


def _program(module: torch.nn.Module, example: Example, name: str) -> torch.export.ExportedProgram:
    try:
        return _traced(module, example, by_running)
    except InvalidModelError:
        raise
    except Exception as error:  # torch.export raises what the model's own code raises
        for tracer in (by_dynamo, differentiated):  # they read some code that the first does not
            with suppress(Exception):
                return _traced(module, example, tracer)
        raise _refusal(module, name, example, error) from error


def _traced(
    module: torch.nn.Module, example: Example, tracer: Tracer, *, asks_sharing: bool = False
) -> torch.export.ExportedProgram:
    arguments = _combine_args(module, example.args, example.kwargs)
    shapes = with_open_numbers(arguments, export_dimensions(example.dynamic_shapes, example.openness))
    # With it a dimension that is 0 or 1 in the example may still be another one in a run.
    known = nullcontext() if tracer is by_dynamo else Traceable()
    sharing = nullcontext([]) if tracer is by_dynamo or asks_sharing else sharing_unasked()
    know_forms()
    settings = symbolic_config.patch(backed_size_oblivious=True)
    noted = noted_on_nodes(in_force())
    silent = (quiet(logging.CRITICAL), without_graphs(), unwound(), layouts_unasked())
    with ExitStack() as entered:
        for one in (settings, *silent, torch.no_grad(), traceback.preserve_node_meta(), noted, known):
            entered.enter_context(one)
        unasked = entered.enter_context(sharing)
        program = tracer(
            module if tracer is by_dynamo else with_notes(module), example.args, dict(example.kwargs), shapes
        )
    if unasked and writes(program):
        return _traced(module, example, tracer, asks_sharing=True)
    _forget_others(program)
    return program


def _forget_others(program: torch.export.ExportedProgram) -> None:
    """Drop the notes on nodes that are not hetpart's: Dynamo's own, on those of branches, end a later translation."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            notes = node.meta.pop("custom", None) or {}
            if CUSTOM_KEY in notes:
                node.meta["custom"] = {CUSTOM_KEY: notes[CUSTOM_KEY]}


def _refusal(module: torch.nn.Module, name: str, example: Example, error: Exception) -> Exception:
    if not example.args and not example.kwargs:
        return InvalidOptionError(
            f"{name} cannot be traced without arguments: {reason_of(error)}",
            hint="give an example call beside the module: args=(tensor,), kwargs={…}",
        )
    for path, part in module.named_modules():
        require_unscripted(part, module, path)
    require_axes(module, example)
    why = reason_of(error)
    hint = hint_of_call(module, example) or next((hint for part, hint in _HINTS.items() if part in why), _TRACE_HINT)
    return InvalidModelError(f"torch.export refuses {name}: {why}", hint=hint)


def without_storage(module: torch.nn.Module, example: Example) -> tuple[torch.nn.Module, Example]:
    """Both as they are or, where a weight has no storage, with fake tensors on the host: a trace mixes no devices."""
    if not any(map(_is_bare, chain(module.parameters(), module.buffers()))):
        return module, example
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # one of the caller's may refuse what is filled in here
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda given: _on_host(given, mode), (example.args, dict(example.kwargs))
    )
    return _with_host_weights(module, mode), replace(example, args=args, kwargs=kwargs)


def _is_bare(tensor: torch.Tensor) -> bool:
    """Whether it has a form and no content."""
    return tensor.device.type == "meta" or isinstance(tensor, FakeTensor)


def _with_host_weights(module: torch.nn.Module, mode: FakeTensorMode) -> torch.nn.Module:
    """A copy of ``module`` that shares what has storage, fake tensors in the place of what has none."""
    tensors = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    held = copy.deepcopy(module, dict(tensors))
    made = {key: _weight_on_host(tensor, mode) for key, tensor in tensors.items() if _is_bare(tensor)}
    fill: Any = getattr(module, "_init_weights", None)
    for owner in held.modules():
        made |= {} if fill is None else _filled(owner, fill)
        for table in (cast("dict[str, Any]", owner._parameters), cast("dict[str, Any]", owner._buffers)):
            table.update({name: made.get(id(tensor), tensor) for name, tensor in table.items()})
    return held


def _filled(owner: torch.nn.Module, fill: Callable[[torch.nn.Module], object]) -> dict[int, torch.Tensor]:
    """The buffers of ``owner`` that no file keeps, by what was in their place, filled as `transformers` fills them.

    They follow from the configuration, as the frequencies of rotary embeddings do; what loads a checkpoint computes
    them so. Where ``fill`` says nothing of one it stays without content.
    """
    table = cast("dict[str, Any]", owner._buffers)
    lacking = {name: tensor for name, tensor in table.items() if name in owner._non_persistent_buffers_set}
    lacking = {name: tensor for name, tensor in lacking.items() if tensor is not None and _is_bare(tensor)}
    if not lacking:
        return {}
    other = copy.copy(owner)
    other._buffers = table | {name: torch.full(held.shape, _UNSET, dtype=held.dtype) for name, held in lacking.items()}
    fill(other)
    found = {name: cast("torch.Tensor", other._buffers[name]) for name in lacking}
    return {id(lacking[name]): tensor for name, tensor in found.items() if not bool((tensor == _UNSET).any())}


def _weight_on_host(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    made = _on_host(tensor, mode)
    return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def _on_host(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A fake tensor of that form."""
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
