"""Ops that must share a device because the user says so, or because they keep one state of no known size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from hetpart.config import known_device
from hetpart.constraints import AUTO_STATE, State
from hetpart.devices import HOST
from hetpart.errors import InvalidOptionError
from hetpart.partitioner.assembly.specs import value_form
from hetpart.partitioner.pins import matched
from hetpart.plan.model import ValueForm
from hetpart.plan.states import Port, find_states, fits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.constraints import Binding, Constraints
    from hetpart.devices import Machine
    from hetpart.graph.ir import Graph, Value
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import PlacementProblem

_SUGGESTIONS = 5


def colocated(formulation: Formulation, graph: Graph, constraints: Constraints) -> Formulation:
    """``formulation`` with the ops that ``constraints`` bring together in one group.

    Raises:
        InvalidOptionError: a pattern or name matches nothing, or no device can run all of a set.
    """
    problem = formulation.problem
    for text, ops in _sets(graph, constraints):
        problem = replace(problem, groups=_merged(problem.groups, ops))
        _require_device(problem, graph, ops, text)
    return replace(formulation, problem=problem)


def _sets(graph: Graph, constraints: Constraints) -> Iterator[tuple[str, Sequence[int]]]:
    for colocation in constraints.colocations:
        found = [matched(pattern, graph, "the colocation") for pattern in colocation.patterns]
        yield f"the colocation {colocation.text!r}", sorted({op.id for ops in found for op in ops})
    for names in map(frozenset, graph.together):
        yield f"the model, of {min(names, default='')!r}", [op.id for op in graph.ops if op.name in names]
    for state in known_states(constraints.states, graph):
        yield f"the state {state.text!r}", keepers(state, graph)


def known_states(states: Sequence[State], graph: Graph) -> tuple[State, ...]:
    """``states`` by name, those included that ``AUTO_STATE`` stands for; without any, those that the file names.

    Raises:
        InvalidOptionError: an output cannot be the new content of the input, or one of either is named twice.
    """
    if not states:
        return tuple(State(given, returned, f"{given}={returned}") for given, returned in graph.states.items())
    if AUTO_STATE not in states:
        _require_fit(states, graph)
        return tuple(states)
    pairs = find_states(_ports(graph, graph.inputs), _ports(graph, graph.outputs))
    return tuple(State(given, returned, f"{given}={returned}") for given, returned in sorted(pairs.items()))


def note_of_states(states: Sequence[State], graph: Graph) -> tuple[str, ...]:
    """What to name where ``AUTO_STATE`` stands for none."""
    if AUTO_STATE not in states or known_states(states, graph):
        return ()
    old, new = _ports(graph, graph.inputs), _ports(graph, graph.outputs)
    inputs = [repr(port.name) for port in old if any(fits(port, other) for other in new)][:_SUGGESTIONS]
    outputs = [repr(port.name) for port in new if any(fits(other, port) for other in old)][:_SUGGESTIONS]
    if not inputs:
        return ("--state auto finds no state: no output is of an input's type and shape",)
    fitting = f"inputs that fit an output are {', '.join(inputs)}, and outputs that fit one {', '.join(outputs)}"
    return (f"--state auto finds no state by its names; name each, as --state past=present: {fitting}",)


def _require_fit(states: Sequence[State], graph: Graph) -> None:
    """As sessions want them. Names that are no input or output are refused where their ops are looked for."""
    old, new = ({port.name: port for port in _ports(graph, ends)} for ends in (graph.inputs, graph.outputs))
    for state in states:
        known = state.given in old and state.returned in new
        if known and not fits(old[state.given], new[state.returned]):
            raise InvalidOptionError(
                f"{state.returned!r} cannot be the new content of {state.given!r}",
                hint="a state is a graph input, and a graph output of its type and shape",
            )
    for ends in ([state.given for state in states], [state.returned for state in states]):
        twice = [name for name in ends if ends.count(name) > 1]
        if twice:
            raise InvalidOptionError(f"{twice[0]!r} belongs to two states", hint="give every state its own output")


def _ports(graph: Graph, values: Sequence[int]) -> list[Port]:
    return [Port(value.name, value.dtype, value.shape) for value in (graph.values[index] for index in values)]


def _merged(groups: NDArray[np.int32], ops: Sequence[int]) -> NDArray[np.int32]:
    """``groups`` with all that hold one of ``ops`` made one, named by its first op as fusion groups are."""
    if not ops:
        return groups
    joined = np.isin(groups, groups[list(ops)])
    return np.where(joined, groups[joined].min(), groups)


def _require_device(problem: PlacementProblem, graph: Graph, ops: Sequence[int], text: str) -> None:
    if not ops or problem.legal()[:, ops[0]].any():
        return
    together = np.flatnonzero(problem.groups == problem.groups[ops[0]]).tolist()
    against = [f"{graph.ops[op].name!r} ({graph.ops[op].op_type}) cannot run on {device}" for device, op in
               _obstacles(problem, together)]  # fmt: skip
    raise InvalidOptionError(
        f"{text} brings {len(together)} ops together that no device can run: {', '.join(against)}",
        hint="make its pattern narrower, or loosen the pins",
    )


def _obstacles(problem: PlacementProblem, ops: Sequence[int]) -> Iterator[tuple[str, int]]:
    """For every device, the first op that cannot run there."""
    for index, device in enumerate(problem.devices):
        yield device, next(op for op in ops if not np.isfinite(problem.seconds[index, op]))


def keepers(state: State, graph: Graph) -> list[int]:
    """What makes the state's new content; where only a run tells its size, what reads the old one too."""
    given = _boundary(state.given, graph, graph.inputs, "input", state.text)
    returned = _boundary(state.returned, graph, graph.outputs, "output", state.text)
    makers = [] if returned.producer is None else [returned.producer]
    return makers if makers and value_form(given) is ValueForm.STATIC else sorted({*_readers(graph, given), *makers})


def kept(formulation: Formulation, graph: Graph, constraints: Constraints, machine: Machine) -> Formulation:
    """``formulation`` with the graph inputs and outputs that are bound to an accelerator handed over there.

    Raises:
        InvalidOptionError: a name is neither, its device is not there or cannot hold it, or bindings contradict.
    """
    states = _of_states(constraints, graph)
    bound: dict[str, Binding] = {}
    for binding in constraints.bindings:
        value = _bound_value(binding, graph, machine)
        if bound.setdefault(value.name, binding).device != binding.device:
            raise InvalidOptionError(
                f"{bound[value.name].text!r} and {binding.text!r} contradict each other", hint="keep one of them"
            )
    places = np.zeros(formulation.problem.values, np.int8)
    for index, value in enumerate(formulation.values):
        if value.name in bound and value.name not in states:
            places[index] = machine.index(bound[value.name].device)
    if not places.any():
        return formulation
    return replace(formulation, problem=replace(formulation.problem, value_kept=places))


def _of_states(constraints: Constraints, graph: Graph) -> dict[str, State]:
    """States by the names of their inputs and outputs: those stay with the op that makes the new content."""
    states = known_states(constraints.states, graph)
    return {name: state for state in states for name in (state.given, state.returned)}


def _bound_value(binding: Binding, graph: Graph, machine: Machine) -> Value:
    known_device(binding.device, machine, binding.text)
    value = _boundary(binding.value, graph, (*graph.inputs, *graph.outputs), "input or output", binding.text)
    if machine.index(binding.device) != HOST and value_form(value) is ValueForm.OPAQUE:
        raise InvalidOptionError(
            f"{binding.text!r} puts a {value.dtype or value.kind} on {binding.device}, which holds numbers alone",
            hint="leave it on the host",
        )
    return value


def bound_ops(constraints: Constraints, graph: Graph, machine: Machine) -> dict[int, Binding]:
    """The ops that bindings of states place: those that keep them.

    Raises:
        InvalidOptionError: a name is neither input nor output, its device is not there, or bindings contradict each
            other.
    """
    placed: dict[int, Binding] = {}
    states = _of_states(constraints, graph)
    for binding in (binding for binding in constraints.bindings if binding.value in states):
        _bound_value(binding, graph, machine)
        for op in keepers(states[binding.value], graph):
            earlier = placed.setdefault(op, binding)
            if earlier.device != binding.device:
                raise InvalidOptionError(
                    f"{earlier.text!r} and {binding.text!r} contradict each other on the op {graph.ops[op].name!r}",
                    hint="both are kept by it: keep one of them",
                )
    return placed


def _readers(graph: Graph, value: Value) -> list[int]:
    return [op.id for op in graph.ops if value.id in op.uses]


def _boundary(name: str, graph: Graph, among: Sequence[int], what: str, text: str) -> Value:
    known: Mapping[str, Value] = {graph.values[index].name: graph.values[index] for index in among}
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=_SUGGESTIONS, cutoff=0.4) or list(known)[:_SUGGESTIONS]
    raise InvalidOptionError(
        f"{text!r} names {name!r}, which is no {what} of {graph.name!r}",
        hint=f"it has, for example, {', '.join(map(repr, close))}" if close else f"it has no {what}",
    )
