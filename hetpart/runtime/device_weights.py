# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Weights that several partitions of a CUDA device use: copied there once, and read there by all of their sessions.

Nothing of this has been measured on a GPU yet.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnxruntime

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class DeviceWeights:
    """Copies of weights on devices, each made once."""

    _values: dict[tuple[str, str], Any] = field(default_factory=dict["tuple[str, str]", Any])
    """By device and weight; ``None`` where there can be none."""

    def value(self, device: str, name: str, host: onnxruntime.OrtValue) -> onnxruntime.OrtValue | None:
        """The weight ``name`` on ``device``; ``None``, and a warning, where each session must make a copy of its own.

        Args:
            device: As ``cuda:0``.
            name: Of the weight.
            host: Its content.
        """
        if (device, name) not in self._values:
            kind, _, index = device.partition(":")
            try:
                self._values[device, name] = on_device(host, kind, int(index or 0))
            except Exception as error:  # noqa: BLE001 - ONNX Runtime's kinds of error share no other class
                _LOG.warning("the weight %r is on %s once for each session that uses it: %s", name, device, error)
                self._values[device, name] = None
        return self._values[device, name]


def on_device(host: onnxruntime.OrtValue, kind: str, index: int) -> onnxruntime.OrtValue:
    """A copy of ``host`` on a device, which sessions take as a weight: they refuse values that own their memory."""
    import onnxruntime

    if kind != "cpu":
        onnxruntime.preload_dlls()
    return onnxruntime.OrtValue.from_dlpack(onnxruntime.OrtValue.ortvalue_from_numpy(host.numpy(), kind, index))
