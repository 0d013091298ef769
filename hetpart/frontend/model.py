"""What a model may be, and a PyTorch model once it is exported. Nothing here imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from hetpart.errors import HetpartError
from hetpart.graph.load import LoadedModel
from hetpart.units import format_count

if TYPE_CHECKING:
    import onnx
    import onnx_ir
    import torch

    from hetpart.frontend.assumed import Assumed
    from hetpart.frontend.safetensors import StoredWeights
    from hetpart.frontend.weights import HeldWeights


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExportedModel:
    """A PyTorch model, in ONNX operators and as a program whose nodes those are named by."""

    loaded: LoadedModel
    program: torch.export.ExportedProgram
    """After decomposition."""
    original: torch.export.ExportedProgram
    """Before: how it is called, what it returns and what it changes."""
    held: HeldWeights
    """Weights that lie in no file."""
    source: torch.nn.Module | torch.export.ExportedProgram | None = None
    """What marks on modules speak of when a plan is made."""
    pinned: Mapping[str, str] = field(default_factory=dict[str, str])
    """Modules that were marked when it was exported, with their devices."""
    tied: Mapping[str, str] = field(default_factory=dict[str, str])
    """Second names of weights, with the first."""
    stored: StoredWeights | None = None
    """Files in which weights lie."""
    assumed: Assumed | None = None
    """What it takes for granted of sizes; ``None`` where somebody else asks before every call."""
    again: Callable[[Mapping[str, int]], ExportedModel] | None = None
    """Exports it again at other sizes, by the names of dimensions."""

    def __repr__(self) -> str:
        """One line."""
        sizes = "".join(f", {name}={size}" for name, size in self.loaded.sizes.items())
        return f"<ExportedModel {self.loaded.name!r}: {format_count(len(self.loaded.proto.graph.node), 'node')}{sizes}>"


def required(exported: ExportedModel | None, what: str) -> ExportedModel:
    """``exported``, where ``what`` needs a PyTorch model.

    Raises:
        HetpartError: there is none.
    """
    if exported is None:
        raise HetpartError(
            f"{what} needs a PyTorch model, and this is an ONNX model",
            hint="give the torch.nn.Module itself to hetpart.partition",
        )
    return exported


if TYPE_CHECKING:
    OnnxModel = str | PathLike[str] | onnx.ModelProto | onnx_ir.Model
    TorchModel = torch.nn.Module | torch.export.ExportedProgram | ExportedModel
    Model = OnnxModel | TorchModel
