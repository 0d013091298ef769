# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What a task does: make a copy, or run a partition, in a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import ExecutionError, HetpartError
from hetpart.plan.model import Partition, ValueForm
from hetpart.runtime.called import CalledSession, run_called
from hetpart.runtime.direct import DirectSession
from hetpart.runtime.dlpack import is_ort_value
from hetpart.runtime.dtypes import is_builtin, onnx_number
from hetpart.runtime.frame import Frame, Move, Place, Stage
from hetpart.runtime.kept import DevicePointer
from hetpart.runtime.refusals import CHECK_HINT, ort_hint, ort_message
from hetpart.runtime.values import address_of, allocate, extent, to_array, to_value
from hetpart.units import format_bytes, format_count

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.plan.model import ValueSpec


def copy_failed(move: Move, error: Exception) -> ExecutionError:
    """What a caller is told of a copy that met with ``error``."""
    copy = move.transfer
    return ExecutionError(
        f"the copy of {copy.value!r} ({format_bytes(copy.nbytes)}) from {copy.source} to {copy.target} failed: {error}",
        hint=error.hint if isinstance(error, HetpartError) else "see whether the device has memory left",
    )


def make_copy(frame: Frame, move: Move) -> None:
    """Copy a value to another device."""
    form = move.spec.form
    if form is ValueForm.STATIC:
        source, target = move.source_address, move.target_address
        if source is None:
            source = frame.moved(move.source)
        if target is None:
            target = frame.new_address(move.target)
        nbytes = move.spec.nbytes
        if nbytes <= move.piece_bytes:
            move.copy(target, source, nbytes)
        else:
            _copy_pieces(frame, move, target, source, nbytes)
    elif form is ValueForm.OPAQUE:
        frame.arrays[move.target] = frame.arrays[move.source]
    else:
        frame.arrays[move.target] = _copied_value(frame, move)


def _copy_pieces(frame: Frame, move: Move, target: int, source: int, nbytes: int) -> None:
    piece = move.piece_bytes
    for start in range(0, nbytes, piece):
        if frame.is_stopped:
            raise ExecutionError("the run stops")
        move.copy(target + start, source + start, min(piece, nbytes - start))


def _copied_value(frame: Frame, move: Move) -> Any:
    """A value of unknown size on another device, as an OrtValue of its own."""
    lies = extent(move.spec, frame.arrays[move.source])
    copy = allocate(move.spec, lies.shape, frame.layout.memories[move.target[1]])
    if lies.nbytes:
        _copy_pieces(frame, move, copy.data_ptr(), lies.address, lies.nbytes)
    return copy


def run_stage(frame: Frame, stage: Stage, run_options: Any) -> None:
    """Run a partition."""
    if isinstance(stage.session, CalledSession):
        run_called(frame, stage, stage.session)
    elif stage.binding is None:
        _run_python(frame, stage, stage.session, run_options)
    else:
        _run_bound(frame, stage, stage.session, run_options)


def run_failed(partition: Partition, error: Exception) -> ExecutionError:
    """What a caller is told of a partition that met with ``error`` of ONNX Runtime's, which may name the op."""
    return ExecutionError(
        f"partition {partition.id} on {partition.device} failed ({_ops(partition)}): {ort_message(error)}",
        hint=ort_hint(error, CHECK_HINT),
    )


def called(partition: Partition) -> str:
    """Which partition, where, and its ops in short."""
    return f"partition {partition.id} on {partition.device} ({_ops(partition)})"


def _ops(partition: Partition) -> str:
    return f"{format_count(len(partition.ops), 'op')}, {partition.ops[0]!r} to {partition.ops[-1]!r}"


def _run_bound(frame: Frame, stage: Stage, session: DirectSession, run_options: Any) -> None:
    binding = stage.binding
    assert binding is not None
    layout = frame.layout
    for place in stage.renewed_inputs:
        stage.renew_input(layout, place, frame.moved(place))
    for place in stage.loose_inputs:
        _bind_loose(frame, stage, place)
    for place in stage.renewed_outputs:
        stage.renew_output(layout, place, frame.new_address(place))
    try:
        session.run_with_iobinding(binding, run_options)
        if stage.allocated_outputs:
            made = binding.get_outputs()
            for position, place in stage.allocated_outputs:
                frame.arrays[place] = made[position]
    finally:
        stage.let_go(layout)


def _bind_loose(frame: Frame, stage: Stage, place: Place) -> None:
    spec, value = frame.layout.specs[place[0]], frame.arrays[place]
    assert stage.binding is not None
    if isinstance(value, np.ndarray):
        stage.binding.bind_input(place[0], "cpu", 0, onnx_number(spec.dtype), value.shape, address_of(value))
    else:
        stage.binding.bind_ortvalue_input(place[0], value)
        stage.lent.append(place)


def _run_python(frame: Frame, stage: Stage, session: DirectSession, run_options: Any) -> None:
    layout, partition = frame.layout, stage.partition
    feeds = {name: _python_value(frame, layout.place(partition, name)) for name in partition.inputs}
    made = session.run(list(partition.outputs), feeds, run_options)
    for name, value in zip(partition.outputs, made, strict=True):
        _keep_python(frame, layout.place(partition, name), value)


def _python_value(frame: Frame, place: Place) -> Any:
    """What ``session.run`` takes: an object of Python's, or an OrtValue, which holds every type of tensor."""
    layout = frame.layout
    spec, memory = layout.specs[place[0]], layout.memories[place[1]]
    if spec.form is not ValueForm.STATIC:
        return frame.arrays[place]
    copy = allocate(spec, [size or 0 for size in spec.shape or ()], layout.memories[layout.host])
    memory.copy_out(copy.data_ptr(), frame.address(place), spec.nbytes)
    return copy


def _keep_python(frame: Frame, place: Place, value: Any) -> None:
    spec = frame.layout.specs[place[0]]
    if spec.form is not ValueForm.STATIC:
        frame.arrays[place] = value
        return
    array = np.asarray(value, order="C")
    if array.shape != spec.shape:
        # A buffer of the planned size waits for it, here or on another device.
        raise ValueError(f"the value {place[0]!r} has shape {list(array.shape)}, planned was {list(spec.shape or ())}")
    if place in frame.addresses or place in frame.moving:
        frame.layout.memories[place[1]].copy_in(frame.address(place), array.ctypes.data, array.nbytes)
    else:
        frame.arrays[place] = array


def result(frame: Frame, spec: ValueSpec) -> Any:
    """An output as the caller gets it."""
    layout = frame.layout
    value = frame.arrays[layout.results[spec.name]]
    if spec.name in layout.plan.passthrough and isinstance(value, np.ndarray):
        value = np.array(value)
    if spec.form is ValueForm.OPAQUE:
        return value
    device = layout.results[spec.name][1]
    array = to_array(spec, value, layout.memories[device])
    return array if device == layout.host else np.array(array)


def value_result(frame: Frame, spec: ValueSpec) -> onnxruntime.OrtValue | DevicePointer:
    """An output as an OrtValue that owns its content, or what the caller had it written to on its device.

    Raises:
        ExecutionError: it is no tensor of numbers.
    """
    import onnxruntime

    value = frame.arrays[frame.layout.results[spec.name]]
    if is_ort_value(value) or isinstance(value, DevicePointer):
        return value
    if not isinstance(value, np.ndarray) or spec.form is ValueForm.OPAQUE:
        raise ExecutionError(
            f"the output {spec.name!r} is no tensor of numbers, and ONNX Runtime makes no OrtValue of others",
            hint="take it with run(), as a Python object",
        )
    if value is frame.targets.get(spec.name) and is_builtin(spec.dtype):
        return onnxruntime.OrtValue.ortvalue_from_numpy(value)  # which keeps no array alive: this one is the caller's
    return to_value(spec, value)
