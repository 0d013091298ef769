# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""``IOBinding``: the calls of ``onnxruntime.IOBinding``, for a session of several partitions."""

from __future__ import annotations

from dataclasses import replace
from reprlib import repr as shortened
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.plan.homes import home
from hetpart.plan.model import ValueForm
from hetpart.runtime.bound import bound_address, bound_device, bound_shape, bound_type
from hetpart.runtime.cuda import CudaMemory
from hetpart.runtime.dlpack import is_ort_value, memory_of
from hetpart.runtime.dtypes import numpy_dtype, onnx_number
from hetpart.runtime.feeds import describe, is_shaped
from hetpart.runtime.kept import DevicePointer
from hetpart.runtime.values import array_at, fresh_array, tensor_bytes, to_array, to_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Plan, ValueSpec
    from hetpart.runtime.transport import Memory

_HOST_HINT = "bind it on {home}, where the plan hands it over; --io {name}={device} makes one that hands it over there"
_NO_MEMORIES: Mapping[str, Memory] = MappingProxyType({})


class IOBinding:
    """What a session's runs read and write, bound once. What is bound must stay alive as long as it is.

    Args:
        plan: Of the session.
        owner: The session.
        memories: Of its devices.
    """

    def __init__(self, plan: Plan, owner: object, memories: Mapping[str, Memory] = _NO_MEMORIES) -> None:
        self.owner = owner
        self._plan, self._memories = plan, memories
        self._inputs: Mapping[str, ValueSpec] = {spec.name: spec for spec in plan.inputs}
        self._outputs: Mapping[str, ValueSpec] = {spec.name: spec for spec in plan.outputs}
        self._fed: dict[str, Any] = {}
        self._wanted: dict[str, np.ndarray[Any, Any] | DevicePointer | None] = {}
        self._there: set[str] = set()
        """Outputs that are bound on the accelerator they are kept on."""
        self._own: dict[str, onnxruntime.OrtValue] = {}
        """OrtValues that outputs are written to."""
        self._made: dict[str, Any] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        """Of buffers that outputs of unknown size are written to: a run must make just that size."""

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Read the input ``name`` from an array."""
        self._spec(name, self._inputs, "input")
        self._fed[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Read the input ``name`` from an address."""
        planned = self._spec(name, self._inputs, "input")
        spec, on_host = self._sized(planned, element_type, shape), device_type == "cpu"
        device, address = self._device(name, device_type, device_id), bound_address(name, buffer_ptr, spec.nbytes)
        if not on_host and planned.form is not ValueForm.STATIC:
            raise InvalidFeedError(
                f"{name!r}, whose size only a run tells, is bound at an address of {device}",
                hint="bind it as an OrtValue there: bind_ortvalue_input",
            )
        self._fed[name] = array_at(spec, address) if on_host else self._pointer(device, address)

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
        spec, device = self._spec(name, self._outputs, "output"), self._device(name, device_type, device_id)
        self._bind_on(name, device)
        self._own.pop(name, None)
        self._shapes.pop(name, None)
        if buffer_ptr is None:
            self._wanted[name] = None
        else:
            sized = self._sized(spec, element_type, shape or ())
            self._write_to(name, sized, bound_address(name, buffer_ptr, sized.nbytes), device)

    def bind_ortvalue_output(self, name: str, ortvalue: onnxruntime.OrtValue) -> None:
        """Write the output ``name`` to an OrtValue."""
        spec, given = self._spec(name, self._outputs, "output"), cast("object", ortvalue)
        if not is_ort_value(given):
            raise InvalidFeedError(
                f"the output {name!r} is bound to {shortened(given)}, no OrtValue",
                hint="give an onnxruntime.OrtValue, or an address to bind_output",
            )
        device = f"{ortvalue.device_name()}:{memory_of(ortvalue).device_id}"
        self._bind_on(name, device)
        self._shapes.pop(name, None)
        sized = self._sized(spec, ortvalue.element_type(), ortvalue.shape())
        self._write_to(name, sized, ortvalue.data_ptr(), device)
        self._own[name] = ortvalue

    def _write_to(self, name: str, sized: ValueSpec, address: int, device: str) -> None:
        """Write an output to a buffer of the caller's, of the size of ``sized``."""
        known = self._outputs[name].form is ValueForm.STATIC
        if not known and name in self._there:
            raise InvalidFeedError(
                f"{name!r}, whose size only a run tells, is bound to a buffer on {device}",
                hint=f"let one be allocated there: bind_output({name!r}, ...) without an address",
            )
        if not known:
            self._shapes[name] = tuple(size or 0 for size in sized.shape or ())
        there = name in self._there
        self._wanted[name] = self._pointer(device, address) if there else array_at(sized, address)

    def _bind_on(self, name: str, device: str) -> None:
        """Note where an output is bound: on the host, or where the plan keeps it."""
        at = home(self._plan, name)
        self._there.discard(name)
        if device == at:
            self._there.add(name)
        elif not device.startswith("cpu:"):
            hint = _HOST_HINT.format(home=at, name=name, device=device)
            raise InvalidFeedError(f"the output {name!r} is bound on {device}", hint=hint)

    def _device(self, name: str, device_type: object, device_id: object) -> str:
        return bound_device(name, device_type, device_id, self._memories)

    def _pointer(self, device: str, address: int) -> DevicePointer:
        memory = self._memories.get(device)
        return DevicePointer(CudaMemory(int(device.partition(":")[2])) if memory is None else memory, address)

    def _spec(self, name: str, among: Mapping[str, ValueSpec], what: str) -> ValueSpec:
        if not isinstance(cast("object", name), str) or name not in among:
            raise InvalidFeedError(
                f"the model has no {what} {name!r}", hint=f"its {what}s are {', '.join(map(repr, among)) or 'none'}"
            )
        return among[name]

    def _sized(self, spec: ValueSpec, element_type: Any, shape: Sequence[int]) -> ValueSpec:
        """``spec`` in the size of a buffer, whose type and shape are what it needs."""
        number = element_type if isinstance(element_type, int) else _number(spec, element_type)
        sizes = bound_shape(spec.name, shape)
        if spec.form is ValueForm.OPAQUE or number != onnx_number(spec.dtype) or not is_shaped(sizes, spec):
            raise InvalidFeedError(
                f"{spec.name!r} is bound to {element_type} {list(sizes)}, planned was {describe(spec)}",
                hint="bind a buffer of the planned type and shape, or let one be allocated",
            )
        return replace(spec, form=ValueForm.STATIC, shape=sizes, nbytes=tensor_bytes(spec.dtype, sizes))

    def feeds(self) -> dict[str, Any]:
        """What is bound, by input name."""
        return {name: self._as_fed(name, value) for name, value in self._fed.items()}

    def _as_fed(self, name: str, value: Any) -> Any:
        """What lies on a device that the plan does not take it from is copied to the host."""
        if not isinstance(value, DevicePointer):
            return value
        memory = self._memories.get(home(self._plan, name))
        kept = name in self._plan.homes and memory is not None and value.lies_in(memory)
        return value if kept else value.read(fresh_array(self._inputs[name]))

    def targets(self) -> dict[str, Any]:
        """The memory that outputs are written to: arrays over it, or pointers on the device they are kept on.

        Raises:
            InvalidFeedError: no output is bound.
        """
        if not self._wanted:
            raise InvalidFeedError("no output is bound", hint="bind_output(name) says which the run is for")
        made_there = self._plan.homes.keys() - self._there
        return {name: array for name, array in self._wanted.items() if array is not None and name not in made_there}

    @property
    def wanted(self) -> list[str]:
        """The outputs that are bound."""
        return list(self._wanted)

    def take(self, made: Mapping[str, onnxruntime.OrtValue]) -> None:
        """Keep the outputs of a run.

        Raises:
            InvalidFeedError: one is not of the size of the buffer that is bound for it.
        """
        for name, shape in self._shapes.items():
            if tuple(made[name].shape()) != shape:
                raise InvalidFeedError(
                    f"the output {name!r} has the shape {made[name].shape()} in this run, "
                    f"and is bound to a buffer of {list(shape)}",
                    hint="bind one of that shape, or let one be allocated: bind_output without an address",
                )
        for name, array in self._wanted.items():
            if isinstance(array, np.ndarray) and made[name].data_ptr() != array.ctypes.data:
                memory_of(made[name]).copy_out(array.ctypes.data, made[name].data_ptr(), array.nbytes)
        self._made = {name: self._own.get(name, made[name]) for name in self._wanted}

    def get_outputs(self) -> list[onnxruntime.OrtValue]:
        """The outputs of the last run, in the order they were bound."""
        return [self._as_bound(name, value) for name, value in self._made.items()]

    def _as_bound(self, name: str, value: Any) -> onnxruntime.OrtValue:
        """An OrtValue where the output is bound; a copy on the host of what the caller only gave an address for."""
        if isinstance(value, DevicePointer):
            return to_value(self._outputs[name], value.read(fresh_array(self._outputs[name])))
        if name not in self._plan.homes or name in self._there or name in self._own:
            return value
        return to_value(self._outputs[name], to_array(self._outputs[name], value, memory_of(value)))

    def get_outputs_as_ortvaluevector(self) -> Any:
        """The same, as ``onnxruntime`` passes them on."""
        from onnxruntime.capi._pybind_state import OrtValueVector

        vector = OrtValueVector()
        for value in self.get_outputs():
            vector.push_back(value._get_c_value())
        return vector

    def copy_outputs_to_cpu(self) -> list[np.ndarray[Any, Any]]:
        """The outputs of the last run, as arrays of their own."""
        return [np.array(value.numpy()) for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Let go of the inputs."""
        self._fed.clear()

    def clear_binding_outputs(self) -> None:
        """Let go of the outputs."""
        self._wanted.clear()
        self._own.clear()
        self._shapes.clear()
        self._there.clear()
        self._made = {}

    def synchronize_inputs(self) -> None:
        """Nothing is under way between runs."""

    def synchronize_outputs(self) -> None:
        """Nothing is under way between runs."""


def _number(spec: ValueSpec, element_type: Any) -> int | None:
    """ONNX's number of NumPy's type, where it is the one of ``spec``."""
    return onnx_number(spec.dtype) if bound_type(spec.name, element_type) == numpy_dtype(spec.dtype) else None
