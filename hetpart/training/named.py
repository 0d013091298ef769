"""What the graph of a step calls its ops and its results: by the parameters that they are of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hetpart.config import device_name
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.notes import write_notes
from hetpart.graph.provenance import EVERY, PIN, PINNED_BY
from hetpart.graph.walk import fresh_name
from hetpart.training.norms import COLLECTED
from hetpart.training.operators import NAMESPACE
from hetpart.training.tables import CHECK, CHECK_OP, LOOKUP_OPS, lookup_name
from hetpart.training.updates import UPDATE_OP

if TYPE_CHECKING:
    import onnx

    from hetpart.frontend.model import ExportedModel
    from hetpart.training.program import StepProgram


def name_ops(exported: ExportedModel, program: StepProgram, targets: Mapping[str, str], files: Collection[str]) -> None:
    """Call updates and lookups by their parameters, and let the model say what of it is a state and where ops belong.

    Args:
        exported: The step, whose graph is changed.
        program: What was exported.
        targets: Kinds of devices that groups ask for, by parameter.
        files: Parameters of those that lie in files.
    """
    graph = exported.loaded.proto.graph
    names = {state.given: state.name for state in program.states}
    looked_up: dict[str, int] = {}
    for node in graph.node:
        if node.domain == CALL_DOMAIN and node.op_type == CHECK_OP:
            node.name = CHECK
        if node.domain != CALL_DOMAIN or not node.op_type.startswith(f"{NAMESPACE}.") or node.input[0] not in names:
            continue
        name = names[node.input[0]]
        if node.op_type in LOOKUP_OPS:
            node.name = lookup_name(name, looked_up.setdefault(name, 0))
            looked_up[name] += 1
        elif name.startswith(COLLECTED):
            node.name = f"collect/{name.removeprefix(COLLECTED)}"
        else:
            node.name = f"{UPDATE_OP}{name}"
            if program.rules.accumulate > 1:
                node.metadata_props.add(key=EVERY, value=str(program.rules.accumulate))
            if name in targets:
                node.metadata_props.add(key=PIN, value=device_name(targets[name]))
                by = "the file that its table lies in" if name in files else "the target of its group"
                node.metadata_props.add(key=PINNED_BY, value=by)
    results = _name_results(graph, [*("loss", "norm")[: program.numbers], *(f"{s.given}.new" for s in program.states)])
    states = {state.given: result for state, result in zip(program.states, results[program.numbers :], strict=True)}
    write_notes(exported.loaded.proto, states, program.together, program.examples)


def _name_results(graph: onnx.GraphProto, wanted: Sequence[str]) -> list[str]:
    """Call the results so, or much like it where another value has the name; returns what they are called."""
    others = (*graph.input, *graph.initializer, *graph.output)
    taken = {value.name for value in others} | {name for node in graph.node for name in node.output}
    names = {value.name: fresh_name(name, taken) for value, name in zip(graph.output, wanted, strict=True)}
    for node in graph.node:
        for listed in (node.input, node.output):
            listed[:] = [names.get(name, name) for name in listed]
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    return list(names.values())
