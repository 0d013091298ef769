# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
"""Bind values of known size to addresses, and run: as ``onnxruntime`` does, without what it does for WebGPU.

Its Python code looks devices up by name, keeps an account of what is bound and asks whether graphs are captured, which
together takes longer than to bind.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hetpart.runtime.dtypes import onnx_number

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.runtime.frame import Layout, Place


class DirectSession:
    """A session as a partition runs it."""

    __slots__ = ("_run_bound", "run")

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.run = session.run
        inner: Any = session._sess
        self._run_bound = inner.run_with_iobinding

    def run_with_iobinding(self, binding: onnxruntime.IOBinding, run_options: Any) -> None:
        """Run on what ``binding`` binds."""
        self._run_bound(binding._iobinding, run_options)


@cache
def _device(device_type: str, device_id: int) -> Any:
    import onnxruntime

    return onnxruntime.OrtDevice.make(device_type, device_id)._get_c_device()


def bind_input(binding: Any, layout: Layout, place: Place, address: int) -> None:
    """Read the input at ``place`` from ``address``."""
    spec, memory = layout.specs[place[0]], layout.memories[place[1]]
    device = _device(memory.device_type, memory.device_id)
    binding._iobinding.bind_input(spec.name, device, onnx_number(spec.dtype), spec.shape, address)


def bind_output(binding: Any, layout: Layout, place: Place, address: int) -> None:
    """Write the output at ``place`` to ``address``."""
    spec, memory = layout.specs[place[0]], layout.memories[place[1]]
    device = _device(memory.device_type, memory.device_id)
    binding._iobinding.bind_output(spec.name, device, onnx_number(spec.dtype), spec.shape, address)
