# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A PyTorch program as PyTorch alone runs it, on the processor: what a plan's results are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument

from hetpart.errors import ExecutionError, HetpartError
from hetpart.frontend.calls import complex_of
from hetpart.frontend.capture import captured
from hetpart.frontend.example import Example
from hetpart.frontend.lifted import LiftedProgram
from hetpart.frontend.prefixes import called_as
from hetpart.frontend.safetensors import StoredWeights, stored_weights
from hetpart.frontend.said import quiet, reason_of
from hetpart.frontend.weights import mapped
from hetpart.runtime.called_tensors import shared
from hetpart.runtime.compare import Uncut
from hetpart.runtime.dtypes import is_builtin, numpy_dtype
from hetpart.runtime.feeds import checked_feeds

if TYPE_CHECKING:
    from hetpart.plan.model import Plan, ValueSpec

_HALVES = {torch.float16, torch.bfloat16}
_FILES = ".safetensors"


def run_eager(path: Path, plan: Plan, feeds: Mapping[str, Any], weights: Path | None) -> Uncut:
    """Results of the program in the file ``path``, as the plan orders them, from PyTorch.

    Args:
        path: What ``torch.export.save`` wrote.
        plan: Made of it, and of other files' weights where its sources name such.
        feeds: By input.
        weights: The folder of those files.

    Raises:
        InvalidModelError: the file is no program, or calls an operator that nobody registered.
        ExecutionError: PyTorch cannot run it.
    """
    files = [source.path for source in plan.model.sources if Path(source.path).suffix == _FILES]
    if files and weights is None:
        raise HetpartError(
            f"--check runs {path.name} with the weights of other files, and the bundle holds a copy of them",
            hint="partition without --self-contained, save the program with those weights, or run without --check",
        )
    program = captured(path, Example()).program
    with quiet(), torch.no_grad():
        program = program.run_decompositions({})  # what it changes is among its results then, as it is in the plan
    if files and weights is not None:
        _take_weights(program, stored_weights(weights / files[0] if len(files) == 1 else weights))
    checked, known = checked_feeds(plan.inputs, feeds), {spec.name: spec for spec in plan.inputs}
    asked = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    complexes = frozenset(node.name for node in program.graph.nodes if _is_complex(node.meta.get("val")))
    given = [_argument(spec, known, checked, complexes) for spec in asked]
    try:
        with torch.no_grad():
            made = LiftedProgram(program)(*given)
    except Exception as error:  # PyTorch's own kinds
        raise ExecutionError(
            f"the uncut model {path} does not run in PyTorch: {reason_of(error)}",
            hint="run it there with the same inputs, or run without --check",
        ) from error
    through = {str(dtype).removeprefix("torch.") for dtype in _HALVES & set(_dtypes(program))}
    return Uncut([_array(spec, result) for spec, result in zip(plan.outputs, made, strict=True)], frozenset(through))


def _take_weights(program: torch.export.ExportedProgram, stored: StoredWeights) -> None:
    """Put what files hold in the place of the program's own; second names of a weight go with the first."""
    same: dict[object, list[str]] = {}
    for name, tensor in program.state_dict.items():
        same.setdefault(tensor.data_ptr() or name, []).append(name)
    tied = {name: names[0] for names in same.values() for name in names[1:]}
    stored, _ = called_as(stored, program.state_dict.keys(), tied, "")
    for names in same.values():
        extent = next((stored.extents[name] for name in names if name in stored.extents), None)
        if extent is not None and extent.nbytes:
            for name in names:
                program.state_dict[name] = mapped(stored.folder, extent, program.state_dict[name])


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _dtypes(program: torch.export.ExportedProgram) -> Iterator[torch.dtype]:
    values = (node.meta.get("val") for node in program.graph.nodes)
    return (value.dtype for value in values if isinstance(value, torch.Tensor))


def _argument(
    spec: InputSpec, known: Mapping[str, ValueSpec], feeds: Mapping[str, Any], complexes: frozenset[str]
) -> Any:
    if isinstance(spec.arg, ConstantArgument):
        return spec.arg.value
    if spec.arg.name not in known:
        return None  # nothing reads it
    tensor = shared(known[spec.arg.name], feeds[spec.arg.name])
    tensor = complex_of(tensor) if spec.arg.name in complexes else tensor
    return tensor if isinstance(spec.arg, TensorArgument) else tensor.item()


def _array(spec: ValueSpec, result: Any) -> Any:
    tensor = torch.as_tensor(result).detach().contiguous()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if tensor.dtype != torch.bfloat16 and is_builtin(str(tensor.dtype).removeprefix("torch.")):
        return tensor.numpy()
    dtype = numpy_dtype(spec.dtype)
    assert dtype is not None
    return tensor.view({1: torch.uint8, 2: torch.uint16}[tensor.itemsize]).numpy().view(dtype)
