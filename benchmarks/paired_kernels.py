# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Kernels that ONNX Runtime ran, each beside the one that was foretold of its session.

ONNX Runtime's profile tells a node's name and its time; its optimised graph, saved from the same session, which values
each node reads and makes. A node belongs to the foretold kernel that makes the same value. Where its values have new
names, its own name tells: a node that computes channels in blocks is named after the value it would have made, others
keep the name they had. What is left, the shaping around products of which ONNX Runtime made two-dimensional ones,
belongs to the kernel it feeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from hetpart.cost_model.session.reuse import Kernel
from hetpart.cost_model.session.simplify import simplified
from hetpart.graph.ir import Graph

if TYPE_CHECKING:
    import onnx
    import onnxruntime

OPTIMISED, WEIGHTS, PROFILE = "optimised.onnx", "optimised.data", "profile"
CLOCK = 1e-6
"""Seconds that ONNX Runtime's profile counts in. It cuts off what is less: half of it, over many runs.

A node's time is cut off in every run alike, so that all of 1.0 to 1.9 us are one. From its begin to that of the next
node it is not: each run begins at another part of a tick, so the mean over many runs has no such step.
"""
SHORT = 10
"""Ticks of that clock, more than those of the shortest node, below which the least of many runs does not tell kernels
apart. What the profile adds to a node is part of its ticks: 3 of them, or 11 behind weights that filled the caches."""
QUIETEST, ENOUGH_RUNS = 0.1, 32
"""Of the runs, by the seconds of all their kernels: a machine with other tenants disturbs most. Means of fewer tell
less than the least of all."""
FEWEST_RANKED = 3
_IN_BLOCKS = re.compile(r"(_bn|_mul)?_nchwc(_token_\d+)?$")
_FARTHEST = 4
"""Nodes between one that belongs to what it feeds, and that."""
_KERNEL_TIME, _NODES_END, _RUN_ENDS = "_kernel_time", "SequentialExecutor::Execute", "model_run"


Run = dict[str, float]
"""Ticks of the nodes of one run, by name."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of ONNX Runtime's optimised graph."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: float
    """From its begin to that of the next: the least of all runs; of a short one, the mean of the quietest."""
    least: float
    """The least that the profile says of itself."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A foretold kernel and the nodes that ran as it: one, where the foretelling is right."""

    kernel: Kernel
    nodes: tuple[Node, ...]

    @property
    def seconds(self) -> float:
        return sum(node.seconds for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Pairing:
    """All of a session."""

    pairs: tuple[Pair, ...]
    """Every foretold kernel, in the order they were foretold."""
    strangers: tuple[Node, ...]
    """Nodes that belong to none."""

    @property
    def paired_share(self) -> float:
        """Of the profiled time."""
        paired = sum(pair.seconds for pair in self.pairs)
        return paired / (paired + sum(node.seconds for node in self.strangers))

    @property
    def noting(self) -> float:
        """Seconds that the profile itself adds to a node, where one does nothing but rename its input.

        The least of any: a kernel that the one before it has warmed takes less than such a node that none has.
        """
        single = [pair for pair in self.pairs if len(pair.nodes) == 1]
        return min(pair.seconds for pair in single) if any(_is_view(pair.kernel) for pair in single) else 0.0

    def net_seconds(self, pair: Pair) -> float:
        """What the nodes of ``pair`` took without ``noting``."""
        return max(0.0, pair.seconds - len(pair.nodes) * self.noting)


def _is_view(kernel: Kernel) -> bool:
    return bool(kernel.makes) and all(made.view_of is not None for made in kernel.makes)


def profile_into(options: onnxruntime.SessionOptions, folder: Path) -> None:
    """Have the session write its profile and its optimised graph into ``folder``."""
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / PROFILE)
    options.optimized_model_filepath = str(folder / OPTIMISED)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)


Profiled = tuple[tuple[Node, ...], list[Run]]
"""Nodes with their seconds in the quietest runs, and all runs."""


def profiled_nodes(session: onnxruntime.InferenceSession, folder: Path, kinds: int = 1) -> list[Profiled]:
    """The nodes that ``session`` ran, for every kind of its runs; it ends the profile.

    Args:
        session: Made with options that ``profile_into`` set.
        folder: Its folder.
        kinds: How many sets of inputs its runs took in turn, where what it computes depends on what they hold.
    """
    import onnx

    graph = onnx.load(folder / OPTIMISED, load_external_data=False).graph
    lasting = {node.name: _lasting_name(node) for node in graph.node}
    known = {lasting[node.name]: (node.op_type, tuple(node.input), tuple(node.output)) for node in graph.node}
    nested = {node.name for outer in graph.node for node in _nested(outer)} - set(lasting)
    events = json.loads(Path(session.end_profiling()).read_bytes())
    runs = [
        {lasting.get(name, name): ticks for name, ticks in run.items() if name not in nested}
        for run in profiled_runs(events)
    ]
    spans = [{lasting.get(name, name): ticks for name, ticks in run.items()} for run in begin_to_begin(events, nested)]
    return [_profiled(runs[kind::kinds], spans[kind::kinds], known) for kind in range(kinds)]


def _profiled(
    runs: list[Run], spans: list[Run], known: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]]
) -> Profiled:
    typical, least = typical_ticks(runs, spans), _least_ticks(runs)
    unknown = ("", (), ())
    nodes = (Node(name, *known.get(name, unknown), CLOCK * typical[name], CLOCK * least[name]) for name in least)
    return tuple(nodes), runs


def _lasting_name(node: onnx.NodeProto) -> str:
    """One that is the same in the next session: what brings channels out of blocks is numbered otherwise in each."""
    return f"{node.op_type} of {node.output[0]}" if node.op_type == "ReorderOutput" else node.name


def _nested(outer: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Nodes of the bodies of ``outer``; its own time has theirs in it."""
    for attribute in outer.attribute:
        for node in attribute.g.node:
            yield node
            yield from _nested(node)


def typical_ticks(runs: Sequence[Run], spans: Sequence[Run]) -> dict[str, float]:
    """Ticks of every node by name, from its ticks to the next one's begin in every run.

    The least; of one that takes a few ticks the mean over the quietest runs, where there are enough of them. Those are
    chosen by the nodes' own ticks, which do not tell at which part of a tick a run began.
    """
    enough = len(runs) >= 2 * ENOUGH_RUNS
    order = sorted(range(len(runs)), key=lambda run: sum(runs[run].values()))
    quiet = [spans[run] for run in order[: max(ENOUGH_RUNS, round(QUIETEST * len(runs)))]]
    leasts = _least_ticks(spans)
    short = SHORT + min(leasts.values(), default=0.0)
    return {
        name: mean(span.get(name, least) for span in quiet) if enough and least <= short else least
        for name, least in leasts.items()
    }


def _least_ticks(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    least: dict[str, float] = {}
    for run in runs:
        least |= {name: min(ticks, least.get(name, ticks)) for name, ticks in run.items()}
    return least


def profiled_runs(events: Iterable[Mapping[str, object]]) -> Iterator[Run]:
    """Ticks of every node in the order they ran, run by run, from a profile's events."""
    ticks: dict[str, float] = {}
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "Node" and name.endswith(_KERNEL_TIME):
            name = name.removesuffix(_KERNEL_TIME)
            ticks[name] = ticks.get(name, 0.0) + float(str(event["dur"]))
        elif name == _RUN_ENDS:
            yield ticks
            ticks = {}


def begin_to_begin(events: Iterable[Mapping[str, Any]], nested: Collection[str] = ()) -> Iterator[Run]:
    """Ticks from the begin of every node to that of the next one, run by run, from a profile's events.

    ``nested`` are names of nodes that run within others.
    """
    begins: list[tuple[str, float]] = []
    end = 0.0
    for event in events:
        name = str(event["name"])
        if event.get("cat") == "Node" and name.endswith(_KERNEL_TIME):
            begins.append((name.removesuffix(_KERNEL_TIME), float(event["ts"])))
        elif name == _NODES_END:
            end = float(event["ts"]) + float(event["dur"])
        elif name == _RUN_ENDS:
            own = [(node, begin) for node, begin in begins if node not in nested]
            ends = [*(begin for _, begin in own[1:]), end]
            yield {node: after - begin for (node, begin), after in zip(own, ends, strict=True)}
            begins = []


def paired(kernels: Sequence[Kernel], graph: Graph, nodes: Sequence[Node]) -> Pairing:
    """Every kernel with its nodes.

    Args:
        kernels: Foretold of a session of all of ``graph``.
        graph: What they are kernels of.
        nodes: What ran.
    """
    places = _Places.of(kernels, graph, nodes)
    found = [places.kernel_of(node) for node in nodes]
    by_kernel: dict[int | None, list[Node]] = {}
    for node, place in zip(nodes, found, strict=True):
        by_kernel.setdefault(place, []).append(node)
    pairs = tuple(Pair(kernel, tuple(by_kernel.get(place, ()))) for place, kernel in enumerate(kernels))
    return Pairing(pairs, tuple(by_kernel.get(None, ())))


@dataclass(frozen=True, slots=True)
class _Places:
    """Positions of kernels by what a node tells."""

    makes: Mapping[int, int]
    """By value; values in blocks are numbered ``-1 - id``."""
    computes: Mapping[int, int]
    """By op."""
    values: Mapping[str, int]
    """By name, those that ONNX Runtime's optimiser takes for the same as one."""
    producers: Mapping[int, int]
    ops: Mapping[str, int]
    readers: Mapping[str, Node]

    @classmethod
    def of(cls, kernels: Sequence[Kernel], graph: Graph, nodes: Sequence[Node]) -> _Places:
        simple = simplified(graph, range(len(graph.ops)), frozenset(graph.outputs))
        return cls(
            {made.value: place for place, kernel in enumerate(kernels) for made in kernel.makes},
            {op: place for place, kernel in enumerate(kernels) for op in kernel.ops},
            {value.name: simple.value(value.id) for value in graph.values},
            {value: op.id for op in graph.ops for value in op.results},
            {op.name: op.id for op in graph.ops},
            {name: node for node in reversed(nodes) for name in node.inputs},
        )

    def kernel_of(self, node: Node, farther: int = _FARTHEST) -> int | None:
        """The position of the kernel that ``node`` ran as, or for."""
        if node.op_type == "ReorderInput":
            return self.makes.get(-1 - self.values[node.inputs[0]]) if node.inputs[0] in self.values else None
        known = (self._maker(self.values[name]) for name in node.outputs if name in self.values)
        place = next((place for place in known if place is not None), None)
        if place is None:
            place = self._named(node.name)
        if place is None and farther:
            fed = (self.readers[name] for name in node.outputs if name in self.readers)
            place = next((self.kernel_of(reader, farther - 1) for reader in fed), None)
        return place

    def _maker(self, value: int) -> int | None:
        """The kernel that writes ``value``, or holds it without writing it."""
        made = self.makes.get(value)
        return made if made is not None else self.computes.get(self.producers.get(value, -1))

    def _named(self, name: str) -> int | None:
        value = self.values.get(_IN_BLOCKS.sub("", name))
        op = self.producers.get(value) if value is not None else self.ops.get(name)
        return None if op is None else self.computes.get(op)


def rank_correlation(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Spearman's; ``None`` where too few are there to rank, or one side knows no order."""
    from scipy.stats import spearmanr

    if len(measured) < FEWEST_RANKED or any(len(set(side)) == 1 for side in (predicted, measured)):
        return None
    return round(float(spearmanr(predicted, measured).statistic), 4)


def kinds_correlation(kinds: Sequence[Hashable], measured: Sequence[float]) -> float | None:
    """The same of the median of every kind, which nobody knows before the run, for comparison."""
    by_kind: dict[Hashable, list[float]] = {}
    for kind, seconds in zip(kinds, measured, strict=True):
        by_kind.setdefault(kind, []).append(seconds)
    medians = {kind: median(seconds) for kind, seconds in by_kind.items()}
    return rank_correlation([medians[kind] for kind in kinds], measured)
