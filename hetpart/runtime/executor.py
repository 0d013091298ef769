# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Run a plan: its tasks one after another in the caller's thread, or on lanes where they gain by it."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetpart.plan.model import ValueForm
from hetpart.plan.timeline import LEAST_GAIN
from hetpart.runtime.ahead import Streams
from hetpart.runtime.apart import cores_of
from hetpart.runtime.dtypes import is_builtin
from hetpart.runtime.frame import NO_PLACES, Frame, Layout
from hetpart.runtime.interrupts import note_during, stoppable, stoppable_options
from hetpart.runtime.lanes import Lanes, Run
from hetpart.runtime.perform import called, result, value_result
from hetpart.runtime.precedence import loose_places, task_graph
from hetpart.runtime.record import RunRecord, TaskTimes, told
from hetpart.runtime.scheduler import begins, makespan
from hetpart.runtime.straight import task_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Thread

    from hetpart.plan.model import Transfer, ValueSpec
    from hetpart.runtime.sessions import PartSession
    from hetpart.runtime.states import States
    from hetpart.runtime.tasks import Task, TaskGraph

NO_TARGETS: Mapping[str, Any] = MappingProxyType({})


class Executor:
    """The memory and the threads of one run at a time.

    Args:
        layout: Of the plan.
        sessions: One for every partition.
        overlap: Let lanes work at the same time: ``None`` where the plan's figures promise a gain,
            ``False`` never, ``True`` wherever the plan has more than one lane.
        states: What stays on its device from run to run.
    """

    def __init__(
        self,
        layout: Layout,
        sessions: Sequence[PartSession],
        *,
        overlap: bool | None = None,
        states: States | None = None,
    ) -> None:
        self.frame = Frame.of(layout, list(sessions), NO_PLACES if states is None else states.fixed)
        self._graph = task_graph(layout)
        self._do = task_functions(self.frame, self._graph.tasks)
        self._gone = _gone(self._graph)
        self._places = tuple(loose_places(layout))
        self._outputs = [(spec, layout.results[spec.name], _is_as_given(layout, spec)) for spec in layout.plan.outputs]
        """With where each lies, and whether it is given as it lies there."""
        self._fed = {spec.name: layout.home(spec.name) for spec in layout.plan.inputs}
        self._streams = Streams.of(layout, self._graph)
        self._lanes = Lanes(self._graph, _most_at_once(layout)) if _overlaps(self._graph, overlap) else None
        self._states = states
        self._options = self._own_options()
        """Of runs in the caller's thread."""
        self.record: RunRecord | None = None
        """When the tasks of the last run began and ended, where somebody asks."""
        self.copied: Sequence[Transfer] = ()
        """The copies that the last run made; none where it failed."""

    @property
    def overlaps(self) -> bool:
        """Whether its tasks run on lanes of their own."""
        return self._lanes is not None

    def crew(self) -> Sequence[Thread]:
        """The threads that work for the caller's."""
        return () if self._lanes is None else self._lanes.threads

    def run(
        self,
        feeds: Mapping[str, Any],
        run_options: Any = None,
        *,
        boxed: bool = False,
        targets: Mapping[str, Any] = NO_TARGETS,
    ) -> dict[str, Any]:
        """Results by name. ``feeds`` are checked; their arrays are contiguous and stay alive through the run.

        Args:
            feeds: By input name: arrays, or tensors on the device that the input is kept on.
            run_options: ``onnxruntime.RunOptions``.
            boxed: Whether the caller gets OrtValues.
            targets: Where outputs of known size are written to: arrays, or what lies on an output's own device.

        Raises:
            ExecutionError: a partition or copy failed; it is named, and the executor can be used again.
        """
        self.settle()
        frame, plan = self.frame, self.frame.layout.plan
        self.copied = ()
        frame.stopping, frame.options, frame.targets, frame.boxed = False, run_options, targets, boxed
        try:
            for name, value in feeds.items():
                frame.arrays[self._fed[name]] = value
            if self._states is not None:
                self._states.lend(frame)
            if self.record is not None:
                self.record.start()
            try:
                self._run(run_options)
            finally:
                if self._streams is not None:
                    self._streams.finish()
            if self.record is not None:
                self.record.end = perf_counter()
            made = self._boxed_results() if boxed else self._results()
            self.copied = plan.transfers
            if self._states is not None:
                self._states.renew(frame)
            return made
        finally:
            if self._lanes is None or self._lanes.is_idle:
                frame.arrays.clear()
                frame.targets = NO_TARGETS

    def _results(self) -> dict[str, Any]:
        frame, found = self.frame, self.frame.arrays
        return {s.name: found[place] if as_given else result(frame, s) for s, place, as_given in self._outputs}

    def _boxed_results(self) -> dict[str, Any]:
        return {spec.name: value_result(self.frame, spec) for spec in self.frame.layout.plan.outputs}

    def settle(self) -> None:
        """Return when nothing is under way any more, as something may be of a run that was interrupted twice."""
        if self._lanes is None:
            return
        was_idle = self._lanes.is_idle
        self._lanes.settle()
        if self._streams is not None and not was_idle:
            self._streams.finish()

    def _run(self, run_options: Any) -> None:
        if self._lanes is not None:
            self._run_on_lanes(self._lanes, run_options)
        elif run_options is None:
            stoppable(self._run_in_turn, self._options)
        else:
            self._run_in_turn(run_options)

    def _run_on_lanes(self, lanes: Lanes, run_options: Any) -> None:
        options = run_options or self._own_options()
        stop = partial(_stop, self.frame, None if run_options else options)
        run = Run(self._graph, self._doing(options), self._release, stop)
        try:
            lanes.run(run)
        except KeyboardInterrupt as pressed:
            self._note(pressed, run.under_way)
            raise

    def _run_in_turn(self, run_options: Any) -> None:
        watched, task = self.record is not None or self._streams is not None, 0
        do = self._doing(run_options) if watched else None
        try:
            for task, gone in enumerate(self._gone):
                if do is None:
                    self._do[task](run_options)
                else:
                    do(task)
                for value in gone:
                    self._release(value)
        except KeyboardInterrupt as pressed:
            self._note(pressed, [task])
            raise

    def _own_options(self) -> Any:
        """Options that a run can be ended by; where a device is asked ahead, no partition waits for it at its end."""
        options = stoppable_options()
        if self._streams is not None:
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options

    def _note(self, pressed: KeyboardInterrupt, tasks: Sequence[int]) -> None:
        """Tell what was under way when Ctrl-C came."""
        for task in tasks[: len(self._graph.tasks)]:
            note_during(pressed, _called(self.frame, self._graph.tasks[task]))

    def _doing(self, run_options: Any) -> Callable[[int], None]:
        """What does the task of a number."""
        functions = self._do

        def do(task: int) -> None:
            functions[task](run_options)

        ordered = do if self._streams is None else self._streams.ordered(do)
        return ordered if self.record is None else self.record.watched(ordered, self.frame)

    def times(self) -> list[TaskTimes]:
        """What the last run did, where it was recorded."""
        if self.record is None:
            return []
        seconds = [task.seconds for task in self._graph.tasks]
        predicted = begins(self._graph) if self.overlaps else list(accumulate(seconds, initial=0.0))
        return told(self.frame.layout, self._graph, predicted, self.record)

    @property
    def predicted_seconds(self) -> float:
        """Of a run in which every task takes what it was predicted to."""
        return makespan(self._graph) if self.overlaps else sum(task.seconds for task in self._graph.tasks)

    def _release(self, value: int) -> None:
        self.frame.arrays.pop(self._places[value], None)

    def close(self) -> None:
        """End the threads."""
        if self._lanes is not None:
            self._lanes.close()


def _overlaps(graph: TaskGraph, wanted: bool | None) -> bool:
    if wanted is not None:
        return wanted and len(graph.lanes) > 1
    return sum(task.seconds for task in graph.tasks) - makespan(graph) >= LEAST_GAIN


def _most_at_once(layout: Layout) -> int | None:
    """Cores, where one of them is at work on every task; ``None`` where a device or a link works by itself.

    With more threads than cores two would share one: a lane that was handed its task while both cores of a machine
    were busy waited for 1.5 ms after one of them was free.
    """
    on_cores = layout.link is None and all(memory.device_type == "cpu" for memory in layout.memories.values())
    return len(cores_of(0)) or None if on_cores else None


def _gone(graph: TaskGraph) -> list[list[int]]:
    """Per task but the last: the values that nothing needs after it, where one task follows another."""
    last = {value: task for task, own in enumerate(graph.tasks) for value in (*own.reads, *own.makes)}
    gone: list[list[int]] = [[] for _ in graph.tasks]
    for value, task in last.items():
        if value not in graph.kept and task + 1 < len(gone):
            gone[task].append(value)
    return gone


def _is_as_given(layout: Layout, spec: ValueSpec) -> bool:
    """Whether an output lies in an array of the host's, as the caller of ``run`` gets it."""
    on_host = layout.results[spec.name][1] == layout.host and spec.name not in layout.plan.passthrough
    return on_host and spec.form is ValueForm.STATIC and is_builtin(spec.dtype)


def _called(frame: Frame, task: Task) -> str:
    if task.is_copy:
        copy = frame.copies[task.index].transfer
        return f"the copy of {copy.value!r} from {copy.source} to {copy.target}"
    return called(frame.stages[task.index].partition)


def _stop(frame: Frame, own_options: Any) -> None:
    """A caller's own options are the caller's: others may be using them too."""
    frame.stopping = True
    if own_options is not None:
        own_options.terminate = True
