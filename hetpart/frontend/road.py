"""Where PyTorch models turn off: everything else goes its way without importing PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from hetpart.errors import InvalidModelError
from hetpart.frontend.example import Example, ExampleOptions, is_pytorch, require_onnx, require_pytorch, uncompiled
from hetpart.frontend.model import ExportedModel
from hetpart.graph.granted import Granted
from hetpart.graph.ir import Shape
from hetpart.graph.load import LoadedModel

if TYPE_CHECKING:
    from hetpart.frontend.model import Model, OnnxModel, TorchModel


def export(model: TorchModel | str | PathLike[str], **example: Unpack[ExampleOptions]) -> ExportedModel:
    """A PyTorch model that is exported once, to be partitioned, swept and linted many times.

    ``args``, ``kwargs``, ``dynamic_shapes`` and ``weights`` are those of ``hetpart.partition``.

    Raises:
        HetpartError: PyTorch is not installed.
        InvalidModelError: It cannot be exported, or is no PyTorch model.
    """
    is_one = isinstance(model, ExportedModel) or is_pytorch(model)
    made = _exported(model, Example.of(example)) if is_one else None
    if made is None:
        raise InvalidModelError(
            f"a {type(model).__name__} is no PyTorch model",
            hint="give a torch.nn.Module, a torch.export.ExportedProgram or a .pt2 file",
        )
    return made


def as_exported(model: Model | LoadedModel, example: Example, sizes: Mapping[str, int]) -> ExportedModel | None:
    """``model`` exported for ``sizes``, with the marks on its modules; ``None`` where it is no PyTorch model.

    Raises:
        HetpartError: PyTorch is not installed.
        InvalidModelError: it cannot be exported.
        InvalidOptionError: ``example`` lacks arguments, or has some for a model that takes none; or the model cannot
            be exported for ``sizes``.
    """
    made = _exported(model, example)
    if made is None:
        return None
    from hetpart.frontend.exported import marked, sized

    return marked(sized(made, sizes), again=made is model)


def granted_in(exported: ExportedModel | None, inputs: Mapping[str, Shape | None], sizes: Mapping[str, int]) -> Granted:
    """What a plan takes for granted of sizes that ``sizes`` leaves open; an ONNX model has no code that reads them.

    ``inputs`` are the shapes of the plan's, by name.

    Raises:
        InvalidOptionError: a condition cannot be asked of a run.
    """
    if exported is None:
        return Granted()
    from hetpart.frontend.granted import granted

    return granted(exported, inputs, sizes)


def _exported(model: Model | LoadedModel, example: Example) -> ExportedModel | None:
    if isinstance(model, LoadedModel):
        return None
    if isinstance(model, ExportedModel) or not is_pytorch(model):
        require_onnx(model, example)
        return model if isinstance(model, ExportedModel) else None
    require_pytorch(Path(model).name if isinstance(model, str | PathLike) else f"a {type(model).__name__}")
    from hetpart.frontend.exported import exported

    return exported(uncompiled(model), example)


def as_readable(model: Model | LoadedModel, example: Example, sizes: Mapping[str, int]) -> OnnxModel | LoadedModel:
    """``model`` as ``graph.load`` reads it, for ``sizes``."""
    made = as_exported(model, example, sizes)
    return cast("OnnxModel | LoadedModel", model) if made is None else made.loaded
