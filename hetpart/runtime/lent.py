# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Weights that lie in the memory of whoever runs a bundle: sessions read them there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import InvalidBundleError
from hetpart.runtime.dlpack import from_dlpack

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.plan.bundle import Bundle

Lent = Mapping[str, "onnxruntime.OrtValue"]


def lent_weights(bundle: Bundle) -> dict[str, onnxruntime.OrtValue]:
    """The weights that ``bundle`` was lent, by name, over the memory they lie in. They must outlive its sessions."""
    return {name: _over(name, tensor) for name, tensor in bundle.lent.items()}


def _over(name: str, tensor: Any) -> onnxruntime.OrtValue:
    import onnxruntime

    shared = from_dlpack(name, tensor)
    return onnxruntime.OrtValue.ortvalue_from_numpy(shared) if isinstance(shared, np.ndarray) else shared


def lend(options: onnxruntime.SessionOptions, model: bytes, lent: Lent) -> None:
    """Let a session of ``model`` read in ``lent`` what it would look for in files.

    Raises:
        InvalidBundleError: one of them is not there.
    """
    if not lent:
        return
    import onnx

    from hetpart.plan.weights import external_tensors

    names = sorted({tensor.name for tensor in external_tensors([onnx.load_model_from_string(model)])})
    missing = [name for name in names if name not in lent]
    if missing:
        raise InvalidBundleError(
            f"the weights {', '.join(map(repr, missing))} are in no file, and were not given",
            hint="give all weights of the model: session(weights={name: tensor})",
        )
    options.add_external_initializers(names, [lent[name] for name in names])
