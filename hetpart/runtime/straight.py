"""The tasks of a frame as functions that are made once, with all in them that runs have in common."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import ExecutionError, InvalidFeedError
from hetpart.plan.model import ValueForm
from hetpart.runtime.called import CalledSession
from hetpart.runtime.dtypes import is_builtin
from hetpart.runtime.perform import copy_failed, make_copy, run_failed, run_stage
from hetpart.runtime.transport import HostMemory
from hetpart.runtime.values import array_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetpart.runtime.frame import Frame, Move, Stage
    from hetpart.runtime.tasks import Task

    Do = Callable[[Any], None]


def task_functions(frame: Frame, tasks: Sequence[Task]) -> list[Do]:
    """What does each of ``tasks`` in ``frame``, which holds what it reads; it is given the ``RunOptions``.

    Raises:
        ExecutionError: a copy or a partition failed; it is named, and so is the op where ONNX Runtime tells.
        InvalidFeedError: a partition is fed what it has no use for.
    """
    return [
        _copying(frame, frame.copies[task.index]) if task.is_copy else _running(frame, frame.stages[task.index])
        for task in tasks
    ]


def _copying(frame: Frame, move: Move) -> Do:
    copy = _copy(frame, move)

    def do(_: Any) -> None:
        try:
            copy()
        except Exception as error:  # of a driver, of NumPy or of ONNX Runtime: whichever copies between these devices
            raise copy_failed(move, error) from error

    return do


def _copy(frame: Frame, move: Move) -> Callable[[], None]:
    if move.spec.form is not ValueForm.STATIC or move.spec.nbytes > move.piece_bytes:
        return partial(make_copy, frame, move)
    copy = _by_address(frame, move)
    if getattr(move.copy, "__func__", None) is HostMemory.copy_in and is_builtin(move.spec.dtype):
        return _by_array(frame, move, copy)
    return copy


def _by_address(frame: Frame, move: Move) -> Callable[[], None]:
    copy, source, target, nbytes = move.copy, move.source_address, move.target_address, move.spec.nbytes

    def do() -> None:
        begin = frame.moved(move.source) if source is None else source
        copy(frame.new_address(move.target) if target is None else target, begin, nbytes)

    return do


def _by_array(frame: Frame, move: Move, by_address: Callable[[], None]) -> Callable[[], None]:
    """The same within the host's memory, where NumPy takes a third of the time that it takes to tell of addresses."""
    spec, (source, target), arrays = move.spec, (move.source, move.target), frame.arrays
    old: Any = None if move.source_address is None else array_at(spec, move.source_address)
    new: Any = None if move.target_address is None else array_at(spec, move.target_address)

    def between() -> None:
        new[...] = old

    def fed() -> None:
        given = arrays.get(source)
        if type(given) is np.ndarray:
            new[...] = given
        else:
            by_address()

    def taken() -> None:
        if frame.targets or frame.boxed or frame.moving:
            by_address()
        else:
            arrays[target] = old.copy()

    if new is None:
        return by_address if old is None else taken
    return fed if old is None else between


def _running(frame: Frame, stage: Stage) -> Do:
    run = _run(frame, stage)

    def do(options: Any) -> None:
        try:
            run(options)
        except (ExecutionError, InvalidFeedError):  # what an operator of hetpart's own finds wrong with what it is fed
            raise
        except Exception as error:  # ONNX Runtime's kinds of error share no other class
            raise run_failed(stage.partition, error) from error

    return do


def _run(frame: Frame, stage: Stage) -> Do:
    moves = stage.renewed_inputs or stage.loose_inputs or stage.renewed_outputs or stage.allocated_outputs
    binding = stage.binding
    if moves or binding is None or isinstance(stage.session, CalledSession):
        return partial(run_stage, frame, stage)

    def run(options: Any) -> None:
        session: Any = stage.session
        session.run_with_iobinding(binding, options)

    return run
