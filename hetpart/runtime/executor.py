# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Run a plan: its tasks one after another in the caller's thread, or on lanes where they gain by it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hetpart.plan.timeline import LEAST_GAIN
from hetpart.runtime.frame import Frame, Layout
from hetpart.runtime.lanes import Lanes, Run
from hetpart.runtime.perform import make_copy, result, run_stage
from hetpart.runtime.precedence import loose_places, task_graph
from hetpart.runtime.scheduler import makespan
from hetpart.runtime.sessions import require_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnxruntime

    from hetpart.plan.model import Transfer
    from hetpart.runtime.tasks import Task, TaskGraph


class Executor:
    """The memory and the threads of one run at a time.

    Args:
        layout: Of the plan.
        sessions: One for every partition.
        overlap: Let lanes work at the same time: ``None`` where the plan's figures promise a gain, ``False`` never,
            ``True`` wherever the plan has more than one lane.
    """

    def __init__(
        self, layout: Layout, sessions: Sequence[onnxruntime.InferenceSession], *, overlap: bool | None = None
    ) -> None:
        self.frame = Frame.of(layout, list(sessions))
        graph = task_graph(layout)
        self._places = tuple(loose_places(layout))
        self._lanes = Lanes(graph) if _overlaps(graph, overlap) else None
        self.copied: Sequence[Transfer] = ()
        """The copies that the last run made; none where it failed."""

    @property
    def overlaps(self) -> bool:
        """Whether its tasks run on lanes of their own."""
        return self._lanes is not None

    def run(self, feeds: Mapping[str, Any], run_options: Any = None) -> dict[str, Any]:
        """Results by name. ``feeds`` are checked; their arrays are contiguous and stay alive through the run.

        Raises:
            ExecutionError: a partition or copy failed; it is named, and the executor can be used again.
        """
        if self._lanes is not None:
            self._lanes.settle()
        frame, plan = self.frame, self.frame.layout.plan
        self.copied = ()
        frame.stopping = False
        try:
            for name, value in feeds.items():
                frame.arrays[name, frame.layout.host] = value
            self._run(run_options)
            self.copied = plan.transfers
            return {spec.name: result(frame, spec) for spec in plan.outputs}
        finally:
            if self._lanes is None or self._lanes.is_idle:
                frame.arrays.clear()

    def _run(self, run_options: Any) -> None:
        if self._lanes is None:
            _run_in_turn(self.frame, run_options)
            return
        options = run_options or _new_options()
        do = partial(_do, self.frame, self._lanes.graph.tasks, options)
        stop = partial(_stop, self.frame, None if run_options else options)
        self._lanes.run(Run(self._lanes.graph, do, self._release, stop))

    def _release(self, value: int) -> None:
        self.frame.arrays.pop(self._places[value], None)

    def close(self) -> None:
        """End the threads."""
        if self._lanes is not None:
            self._lanes.close()


def _overlaps(graph: TaskGraph, wanted: bool | None) -> bool:
    if wanted is None:
        return sum(task.seconds for task in graph.tasks) - makespan(graph) >= LEAST_GAIN
    return wanted and len(graph.lanes) > 1


def _run_in_turn(frame: Frame, run_options: Any) -> None:
    for moves, stage in zip(frame.moves, frame.stages, strict=False):
        for move in moves:
            make_copy(frame, move)
        run_stage(frame, stage, run_options)
    for move in frame.moves[-1]:
        make_copy(frame, move)


def _do(frame: Frame, tasks: Sequence[Task], run_options: Any, number: int) -> None:
    task = tasks[number]
    if task.is_copy:
        make_copy(frame, frame.copies[task.index])
    else:
        run_stage(frame, frame.stages[task.index], run_options)


def _new_options() -> Any:
    return require_runtime().RunOptions()


def _stop(frame: Frame, own_options: Any) -> None:
    """A caller's own options are the caller's: others may be using them too."""
    frame.stopping = True
    if own_options is not None:
        own_options.terminate = True
