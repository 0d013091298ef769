# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Run a plan in a frame: copies and partitions, one after another in the plan's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import ExecutionError
from hetpart.plan.model import ValueForm
from hetpart.runtime.dtypes import onnx_number
from hetpart.runtime.frame import Frame, Move, Place, Stage, fresh_array
from hetpart.runtime.refusals import ort_message
from hetpart.runtime.values import allocate, extent, to_array
from hetpart.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.plan.model import ValueSpec


def run_plan(frame: Frame, feeds: Mapping[str, Any], run_options: Any = None) -> dict[str, Any]:
    """Results by name. ``feeds`` are checked; their arrays are contiguous and stay alive through the run.

    Raises:
        ExecutionError: a partition failed; it is named, and the frame can be used again.
    """
    host = frame.layout.host
    frame.copied.clear()
    try:
        for name, value in feeds.items():
            frame.arrays[name, host] = value
        for moves, stage in zip(frame.moves, frame.stages, strict=False):
            for move in moves:
                _move(frame, move)
            _run_stage(frame, stage, run_options)
        for move in frame.moves[-1]:
            _move(frame, move)
        return {spec.name: _result(frame, spec) for spec in frame.layout.plan.outputs}
    finally:
        frame.arrays.clear()


def _move(frame: Frame, move: Move) -> None:
    frame.copied.append(move.transfer)
    form = move.spec.form
    if form is ValueForm.STATIC:
        source, target = move.source_address, move.target_address
        if source is None:
            source = frame.address(move.source)
        if target is None:
            frame.arrays[move.target] = array = fresh_array(move.spec)
            target = array.ctypes.data
        move.copy(target, source, move.spec.nbytes)
    elif form is ValueForm.OPAQUE:
        frame.arrays[move.target] = frame.arrays[move.source]
    else:
        frame.arrays[move.target] = _copied_value(frame, move)


def _copied_value(frame: Frame, move: Move) -> Any:
    """A value of unknown size on another device, as an OrtValue of its own."""
    lies = extent(move.spec, frame.arrays[move.source])
    copy = allocate(move.spec, lies.shape, frame.layout.memories[move.target[1]])
    if lies.nbytes:
        move.copy(copy.data_ptr(), lies.address, lies.nbytes)
    return copy


def _run_stage(frame: Frame, stage: Stage, run_options: Any) -> None:
    try:
        if stage.binding is None:
            _run_python(frame, stage, run_options)
        else:
            _run_bound(frame, stage, run_options)
    except ExecutionError:
        raise
    except Exception as error:
        partition = stage.partition
        ops = f"{format_count(len(partition.ops), 'op')}, {partition.ops[0]!r} to {partition.ops[-1]!r}"
        raise ExecutionError(
            f"partition {partition.id} on {partition.device} failed ({ops}): {ort_message(error)}",
            hint="`hetpart run --check` tells whether the uncut model runs on these inputs",
        ) from error


def _run_bound(frame: Frame, stage: Stage, run_options: Any) -> None:
    binding = stage.binding
    assert binding is not None
    layout = frame.layout
    for place in stage.renewed_inputs:
        _bind_renewed(frame, stage, place)
    for place in stage.renewed_outputs:
        frame.arrays[place] = array = fresh_array(layout.specs[place[0]])
        stage.renew_output(layout, place, array.ctypes.data)
    for _, place in stage.allocated_outputs:
        stage.let_allocate(layout, place)
    stage.session.run_with_iobinding(binding, run_options)
    if stage.allocated_outputs:
        made = binding.get_outputs()
        for position, place in stage.allocated_outputs:
            frame.arrays[place] = made[position]


def _bind_renewed(frame: Frame, stage: Stage, place: Place) -> None:
    layout = frame.layout
    spec = layout.specs[place[0]]
    if spec.form is ValueForm.STATIC:
        stage.renew_input(layout, place, frame.address(place))
        return
    value = frame.arrays[place]
    assert stage.binding is not None
    if isinstance(value, np.ndarray):
        stage.binding.bind_input(place[0], "cpu", 0, onnx_number(spec.dtype), value.shape, value.ctypes.data)
    else:
        stage.binding.bind_ortvalue_input(place[0], value)


def _run_python(frame: Frame, stage: Stage, run_options: Any) -> None:
    layout, partition = frame.layout, stage.partition
    feeds = {name: _python_value(frame, layout.place(partition, name)) for name in partition.inputs}
    made = stage.session.run(list(partition.outputs), feeds, run_options)
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
    if place in frame.addresses:
        frame.layout.memories[place[1]].copy_in(frame.addresses[place], array.ctypes.data, array.nbytes)
    else:
        frame.arrays[place] = array


def _result(frame: Frame, spec: ValueSpec) -> Any:
    layout = frame.layout
    if spec.name in layout.plan.passthrough:
        fed = frame.arrays[layout.plan.passthrough[spec.name], layout.host]
        return np.array(fed) if isinstance(fed, np.ndarray) else fed
    value = frame.arrays[spec.name, layout.host]
    return value if spec.form is ValueForm.OPAQUE else to_array(spec, value, layout.memories[layout.host])
