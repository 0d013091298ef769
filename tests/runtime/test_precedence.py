"""What tasks wait for: whatever order a plan's tasks end in, results are ONNX Runtime's and no device holds more."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from threading import Thread

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hetpart
from hetpart.plan.model import Plan
from hetpart.runtime.events import Copied, Event, Finished, Produced, ReleaseBuffer, RunPartition, StartCopy
from hetpart.runtime.executor import Executor
from hetpart.runtime.frame import Layout
from hetpart.runtime.lanes import Run
from hetpart.runtime.precedence import task_graph
from hetpart.runtime.scheduler import Scheduler
from hetpart.runtime.tasks import TaskGraph
from tests.runtime.graphs import feeds, models
from tests.runtime.models import assert_same, cut, model, plain

GARBAGE = 0xFF


@dataclass
class AnyOrder:
    """Stands in for the threads of lanes: tasks under way end in an order by chance.

    Each does its work when it starts and again when it ends, and what it made is spoilt between: whoever reads too
    early or writes over what another still reads is found out.
    """

    graph: TaskGraph
    order: Random
    executor: Executor
    most_loose: dict[str, int] = field(default_factory=dict)
    is_idle: bool = True
    threads: tuple[Thread, ...] = ()

    def settle(self) -> None:
        pass

    def close(self) -> None:
        pass

    def run(self, run: Run) -> None:
        scheduler = Scheduler(self.graph)
        under_way: list[int] = []
        event: Event = Produced()
        while True:
            for action in scheduler.handle(event):
                match action:
                    case StartCopy(task) | RunPartition(task):
                        under_way.append(task)
                        run._do(task)
                        self.spoil(task)
                    case ReleaseBuffer(value):
                        run._release(value)
                    case _:
                        assert not under_way
                        run._scheduler = scheduler
                        return
            scheduler.validate()
            self.count(scheduler, under_way)
            task = under_way.pop(self.order.randrange(len(under_way)))
            run._do(task)
            event = Copied(task) if self.graph.tasks[task].is_copy else Finished(task)

    def spoil(self, task: int) -> None:
        """The bytes in arenas that ``task`` made."""
        frame, own = self.executor.frame, self.graph.tasks[task]
        plan, layout = frame.layout.plan, frame.layout
        if own.is_copy:
            copy = plan.transfers[own.index]
            made = [(copy.value, copy.target)]
        else:
            partition = plan.partitions[own.index]
            made = [layout.place(partition, name) for name in partition.outputs]
        for place in made:
            if place in frame.addresses:
                ctypes.memset(frame.addresses[place], GARBAGE, layout.specs[place[0]].nbytes)

    def count(self, scheduler: Scheduler, under_way: list[int]) -> None:
        """Values outside the arenas, held or being made, by device."""
        coming = {value for task in under_way for value in self.graph.tasks[task].makes}
        held = [self.executor._places[value][1] for value in (scheduler.held | coming) - self.graph.fed]
        for device in set(held):
            self.most_loose[device] = max(self.most_loose.get(device, 0), held.count(device))


def in_any_order(session: hetpart.Session, order: Random) -> AnyOrder:
    executor = session._own_executor()
    lanes = AnyOrder(task_graph(session._layout), order, executor)
    executor._lanes = lanes
    return lanes


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(proto=models(), data=st.data(), order=st.randoms(use_true_random=False))
def test_results_are_those_of_the_uncut_model_in_any_order(
    proto: onnx.ModelProto, data: st.DataObject, order: Random
) -> None:
    accelerated = data.draw(st.sets(st.sampled_from([node.name for node in proto.graph.node])))
    with cut(proto, accelerated, overlap=False) as session:
        in_any_order(session, order)
        for seed in range(2):
            assert_same(session.run(None, feeds(proto, seed)), plain(proto).run(None, feeds(proto, seed)))


LATE_FEED = model("""late (float[1000] x, float[1000] y) => (float[1000] z) {
    [b] b = Exp(x) [c] c = Neg(b) [z] z = Add(c, y)
}""")
"""With `b` and `z` on the accelerator `y` could go there at once, and is planned to where `x` lay."""
FEED = {"x": np.linspace(-1, 1, 1000, dtype=np.float32), "y": np.linspace(0, 5, 1000, dtype=np.float32)}


def without_edges(graph: TaskGraph, drops: Callable[[int, int], bool]) -> TaskGraph:
    tasks = [
        replace(task, after=tuple(first for first in task.after if not drops(first, number)))
        for number, task in enumerate(graph.tasks)
    ]
    return replace(graph, tasks=tuple(tasks))


def differing(session: hetpart.Session, graph: TaskGraph) -> int:
    """Of 30 orders, how many give another result than ONNX Runtime's."""
    expected = plain(LATE_FEED).run(None, FEED)[0].tobytes()
    found = 0
    for seed in range(30):
        lanes = in_any_order(session, Random(seed))
        session._own_executor()._graph = lanes.graph = graph
        found += session.run(None, FEED)[0].tobytes() != expected
    return found


def test_waits_for_memory_are_needed() -> None:
    """Without them, or without those for values, the test above finds wrong results; with them it finds none."""
    with cut(LATE_FEED, ("b", "z"), overlap=False) as session:
        graph = task_graph(session._layout)
        assert differing(session, graph) == 0
        apart = Layout.of(_apart(session.plan), emulate=True)
        for_values = {(first, then) for then, task in enumerate(task_graph(apart).tasks) for first in task.after}
        for_memory = {(a, b) for b, task in enumerate(graph.tasks) for a in task.after} - for_values
        assert for_memory, "the arena reuses no bytes: the test needs another model"
        assert differing(session, without_edges(graph, lambda a, b: (a, b) in for_memory)) > 0
        assert differing(session, without_edges(graph, lambda a, b: (a, b) in for_values)) > 0


def _apart(plan: Plan) -> Plan:
    """The plan with every buffer at bytes of its own."""
    offset, buffers = 0, []
    for buffer in plan.buffers:
        buffers.append(replace(buffer, offset=offset))
        offset += buffer.nbytes
    return replace(plan, buffers=tuple(buffers))


LOOSE = model("""loose (float[1000] x, float[1000] y) => (int64[1,M] w) {
    [a] a = NonZero(x) [b] b = Neg(a) [c] c = ReduceSum<keepdims=0>(b)
    [d] d = NonZero(y) [w] w = Add(d, c)
}""")
"""With `b` and `w` on the accelerator `d`, whose size only a run can tell, could go there at once."""


def most_on_the_accelerator(session: hetpart.Session, layout: Layout) -> int:
    x, most = np.ones(1000, np.float32), 0
    for seed in range(40):
        lanes = in_any_order(session, Random(seed))
        session._own_executor()._graph = lanes.graph = task_graph(layout)
        assert_same(session.run(None, {"x": x, "y": x}), plain(LOOSE).run(None, {"x": x, "y": x}))
        most = max(most, lanes.most_loose.get("cuda:0", 0))
    return most


def test_a_budget_holds_for_values_outside_the_arena() -> None:
    """In the listed order `a` and `b` are gone before `d` comes, and so they are in any."""
    with cut(LOOSE, ("b", "w"), overlap=False) as session:
        plan = session.plan
        assert plan.device("cuda:0").budget_bytes is not None
        assert most_on_the_accelerator(session, session._layout) == 2
        unlimited = tuple(replace(use, budget_bytes=None) for use in plan.devices)
        layout = replace(session._layout, plan=replace(plan, devices=unlimited))
        assert most_on_the_accelerator(session, layout) == 3
