# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
"""Bind values of known size to addresses: what ``onnxruntime.IOBinding`` does, without what it does for WebGPU.

That looks the device up by name and keeps an account of what is bound, which in a run takes longer than to bind.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hetpart.runtime.dtypes import onnx_number

if TYPE_CHECKING:
    from hetpart.runtime.frame import Layout, Place


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
