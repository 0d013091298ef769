# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A PyTorch program as PyTorch alone runs it, on the processor: what a plan's results are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument

from hetpart.errors import ExecutionError, HetpartError
from hetpart.frontend.capture import captured, quiet, reason_of
from hetpart.frontend.example import Example
from hetpart.frontend.lifted import LiftedProgram
from hetpart.runtime.called_tensors import shared
from hetpart.runtime.compare import Uncut
from hetpart.runtime.dtypes import is_builtin, numpy_dtype
from hetpart.runtime.feeds import checked_feeds

if TYPE_CHECKING:
    from hetpart.plan.model import Plan, ValueSpec

_HALVES = {torch.float16, torch.bfloat16}
_FILES = ".safetensors"


def run_eager(path: Path, plan: Plan, feeds: Mapping[str, Any]) -> Uncut:
    """Results of the program in the file ``path``, as the plan orders them, from PyTorch.

    Raises:
        InvalidModelError: the file is no program, or calls an operator that nobody registered.
        ExecutionError: PyTorch cannot run it.
    """
    if any(Path(source.path).suffix == _FILES for source in plan.model.sources):
        raise HetpartError(
            f"--check runs {path.name} as it is, and the plan's weights are those of other files",
            hint="save the program with those weights in it, or run without --check",
        )
    program = captured(path, Example()).program
    with quiet(), torch.no_grad():
        program = program.run_decompositions({})  # what it changes is among its results then, as it is in the plan
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
    tensor = torch.view_as_complex(tensor) if spec.arg.name in complexes else tensor
    return tensor if isinstance(spec.arg, TensorArgument) else tensor.item()


def _array(spec: ValueSpec, result: Any) -> Any:
    tensor = torch.as_tensor(result).detach().contiguous()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if tensor.dtype != torch.bfloat16 and is_builtin(str(tensor.dtype).removeprefix("torch.")):
        return tensor.numpy()
    dtype = numpy_dtype(spec.dtype)
    assert dtype is not None
    return tensor.view({1: torch.uint8, 2: torch.uint16}[tensor.itemsize]).numpy().view(dtype)
