# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""``IOBinding``: the calls of ``onnxruntime.IOBinding``, for a session of several partitions."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.plan.model import ValueForm
from hetpart.runtime.cuda import CudaMemory
from hetpart.runtime.dtypes import numpy_dtype, onnx_number
from hetpart.runtime.frame import fresh_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Plan, ValueSpec

_HOST_HINT = "bind it on 'cpu': inputs and outputs of a plan are handed over on the host"


@dataclass(frozen=True, slots=True)
class _Device:
    """An input in the memory of a CUDA device: copied to the host when a run begins."""

    index: int
    address: int

    def read(self, spec: ValueSpec) -> np.ndarray[Any, Any]:
        array = fresh_array(spec)
        CudaMemory(self.index).copy_out(array.ctypes.data, self.address, array.nbytes)
        return array


class IOBinding:
    """What a session's runs read and write, bound once. What is bound must stay alive as long as it is.

    Args:
        plan: Of the session.
        owner: The session.
    """

    def __init__(self, plan: Plan, owner: object) -> None:
        self.owner = owner
        self._inputs: Mapping[str, ValueSpec] = {spec.name: spec for spec in plan.inputs}
        self._outputs: Mapping[str, ValueSpec] = {spec.name: spec for spec in plan.outputs}
        self._fed: dict[str, Any] = {}
        self._wanted: dict[str, np.ndarray[Any, Any] | None] = {}
        self._own: dict[str, onnxruntime.OrtValue] = {}
        """OrtValues that outputs are written to."""
        self._made: list[onnxruntime.OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Read the input ``name`` from an array."""
        self._spec(name, self._inputs, "input")
        self._fed[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Read the input ``name`` from an address."""
        spec = self._matching(self._spec(name, self._inputs, "input"), element_type, shape)
        self._fed[name] = _at(spec, buffer_ptr) if device_type == "cpu" else _Device(device_id, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: onnxruntime.OrtValue) -> None:
        """Read the input ``name`` from an OrtValue."""
        self._spec(name, self._inputs, "input")
        self._fed[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Make the output ``name``, at an address where one is given."""
        spec = self._spec(name, self._outputs, "output")
        _require_host(name, f"{device_type}:{device_id}", is_host=device_type == "cpu")
        self._own.pop(name, None)
        if buffer_ptr is None:
            self._wanted[name] = None
        else:
            self._wanted[name] = _at(self._matching(spec, element_type, shape or ()), buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: onnxruntime.OrtValue) -> None:
        """Write the output ``name`` to an OrtValue."""
        spec = self._spec(name, self._outputs, "output")
        _require_host(name, ortvalue.device_name(), is_host=ortvalue.device_name() == "cpu")
        matching = self._matching(spec, ortvalue.element_type(), ortvalue.shape())
        self._wanted[name], self._own[name] = _at(matching, ortvalue.data_ptr()), ortvalue

    def _spec(self, name: str, among: Mapping[str, ValueSpec], what: str) -> ValueSpec:
        if name not in among:
            raise InvalidFeedError(
                f"the model has no {what} {name!r}", hint=f"its {what}s are {', '.join(map(repr, among)) or 'none'}"
            )
        return among[name]

    def _matching(self, spec: ValueSpec, element_type: Any, shape: Sequence[int]) -> ValueSpec:
        """``spec``, where a buffer of that type and shape is what it needs."""
        number = element_type if isinstance(element_type, int) else _number(spec, element_type)
        if spec.form is not ValueForm.STATIC or number != onnx_number(spec.dtype) or tuple(shape) != spec.shape:
            raise InvalidFeedError(
                f"{spec.name!r} is bound to {element_type} {list(shape)}, planned was {spec.dtype} "
                f"{'of unknown shape' if spec.form is not ValueForm.STATIC else list(spec.shape or ())}",
                hint="bind a buffer of the planned type and shape, or let one be allocated",
            )
        return spec

    def feeds(self) -> dict[str, Any]:
        """What is bound, by input name."""
        fed = self._fed.items()
        return {name: value.read(self._inputs[name]) if isinstance(value, _Device) else value for name, value in fed}

    def targets(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays over the memory that outputs are written to.

        Raises:
            InvalidFeedError: no output is bound.
        """
        if not self._wanted:
            raise InvalidFeedError("no output is bound", hint="bind_output(name) says which the run is for")
        return {name: array for name, array in self._wanted.items() if array is not None}

    @property
    def wanted(self) -> list[str]:
        """The outputs that are bound."""
        return list(self._wanted)

    def take(self, made: Mapping[str, onnxruntime.OrtValue]) -> None:
        """Keep the outputs of a run."""
        for name, array in self._wanted.items():
            if array is not None and made[name].data_ptr() != array.ctypes.data:
                ctypes.memmove(array.ctypes.data, made[name].data_ptr(), array.nbytes)
        self._made = [self._own.get(name, made[name]) for name in self._wanted]

    def get_outputs(self) -> list[onnxruntime.OrtValue]:
        """The outputs of the last run, in the order they were bound."""
        return list(self._made)

    def get_outputs_as_ortvaluevector(self) -> Any:
        """The same, as ``onnxruntime`` passes them on."""
        from onnxruntime.capi._pybind_state import OrtValueVector

        vector = OrtValueVector()
        for value in self._made:
            vector.push_back(value._get_c_value())
        return vector

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        """The outputs of the last run, as arrays of their own."""
        return [np.array(value.numpy()) for value in self._made]

    def clear_binding_inputs(self) -> None:
        """Let go of the inputs."""
        self._fed.clear()

    def clear_binding_outputs(self) -> None:
        """Let go of the outputs."""
        self._wanted.clear()
        self._own.clear()
        self._made = []

    def synchronize_inputs(self) -> None:
        """Nothing is under way between runs."""

    def synchronize_outputs(self) -> None:
        """Nothing is under way between runs."""


def _require_host(name: str, device: str, *, is_host: bool) -> None:
    if not is_host:
        raise InvalidFeedError(f"the output {name!r} is bound on {device}", hint=_HOST_HINT)


def _number(spec: ValueSpec, element_type: Any) -> int | None:
    """ONNX's number of NumPy's type, where it is the one of ``spec``."""
    return onnx_number(spec.dtype) if np.dtype(element_type) == numpy_dtype(spec.dtype) else None


def _at(spec: ValueSpec, address: int) -> np.ndarray[Any, Any]:
    """The memory at ``address``, as ``fresh_array`` shapes it."""
    if not spec.nbytes:
        return fresh_array(spec)
    content = np.ctypeslib.as_array((ctypes.c_ubyte * spec.nbytes).from_address(address))
    dtype = numpy_dtype(spec.dtype)
    return content if dtype is None else content.view(dtype).reshape([size or 0 for size in spec.shape or ()])
