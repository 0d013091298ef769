"""States in the placement problem: what stays on whichever device runs the op that makes the new content."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetpart.graph.calls import CALL_DOMAIN, OVERWRITES
from hetpart.partitioner.colocate import keepers, known_states
from hetpart.partitioner.problem import NO_STATES, WHERE_USED, States
from hetpart.plan.states import LOOKS, UPDATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.constraints import State
    from hetpart.graph.ir import Graph, Op, Value
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import PlacementProblem


def with_states(formulation: Formulation, graph: Graph, states: Sequence[State]) -> Formulation:
    """``formulation`` where states are held as weights are, and are neither copied in nor handed out.

    An op on another device that reads one finds a copy there, made in every run.

    Those that kernels of an accelerator read from host memory, or leave there, no session could keep: they stay what
    they were.
    """
    position = {value.name: index for index, value in enumerate(formulation.values)}
    problem = formulation.problem
    for state in known_states(states, graph):
        given, returned = position[state.given], position[state.returned]
        if _can_stay(problem, given, returned):
            ends = formulation.values[given], formulation.values[returned]
            problem = _staying(problem, given, returned, keepers(state, graph), _bytes(graph, *ends))
    return replace(formulation, problem=problem)


def _can_stay(problem: PlacementProblem, given: int, returned: int) -> bool:
    uses = problem.value_uses
    read_on_host = uses.on_host[uses.offsets[given] : uses.offsets[given + 1]].any()
    made = problem.made[returned] and not problem.value_left_on_host[returned]
    return bool(made and not read_on_host and not problem.value_returned[given])


def _staying(problem: PlacementProblem, given: int, returned: int, ops: list[int], nbytes: int) -> PlacementProblem:
    kept, sizes = problem.kept.copy(), problem.value_bytes.copy()
    ends = [given, returned]
    kept[ends], sizes[ends] = WHERE_USED, 0
    return replace(
        problem.and_held(nbytes, ops),
        value_kept=kept,
        value_bytes=sizes,
        states=_with_keeper(problem, given, returned),
    )


def _with_keeper(problem: PlacementProblem, given: int, returned: int) -> States:
    """The states of ``problem`` and one more, which lies with the op that makes its new content."""
    known = problem.states or NO_STATES.and_more(problem.values)
    keeper, nbytes = known.keeper.copy(), known.nbytes.copy()
    keeper[given] = problem.value_producer[returned]
    ends = [given, returned]
    nbytes[ends] = problem.value_bytes[ends]
    return States(keeper, nbytes)


def _bytes(graph: Graph, given: Value, returned: Value) -> int:
    """Old and new content side by side, or one block where the new is written over the old."""
    return given.nbytes if _is_updated_in_place(graph, given, returned) else given.nbytes + returned.nbytes


def _is_updated_in_place(graph: Graph, given: Value, returned: Value) -> bool:
    """As ``runtime.in_place`` judges of the partitions: what an update waits for has ended wherever it is cut."""
    assert returned.producer is not None
    update = graph.ops[returned.producer]
    if update.domain == CALL_DOMAIN:
        last = max(op.id for op in graph.ops if given.id in op.uses)
        return _replaces(update, given, returned) and last == update.id and given.id not in graph.outputs
    if not (_overwrites(update, given.id) and given.is_static) or given.id in graph.outputs:
        return False
    before = _ancestors(graph, update)
    others = [op for op in graph.ops if given.id in op.uses and op.id != update.id]
    return all(op.op_type in LOOKS and op.id in before for op in others)


def _replaces(update: Op, given: Value, returned: Value) -> bool:
    """Whether a call that PyTorch makes writes the new content over the old."""
    over = update.attributes.get(OVERWRITES, ())
    pairs = zip(over, update.outputs, strict=False) if isinstance(over, tuple) else ()
    return any(update.inputs[int(number)] == given.id and made == returned.id for number, made in pairs)


def _overwrites(update: Op, given: int) -> bool:
    standard = update.domain in ("", "ai.onnx") and update.op_type in UPDATES
    return standard and update.inputs[0] == given and given not in update.inputs[1:]


def _ancestors(graph: Graph, op: Op) -> set[int]:
    """Ops that ``op`` waits for."""
    found: set[int] = set()
    left = list(op.uses)
    while left:
        maker = graph.values[left.pop()].producer
        if maker is not None and maker not in found:
            found.add(maker)
            left += graph.ops[maker].uses
    return found
