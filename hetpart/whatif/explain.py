"""Why an op is where it is, and how much slower the best plan gets with it on the other side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from hetpart.budgets import BudgetOption
from hetpart.config import parse_pattern
from hetpart.errors import HetpartError, InfeasibleError, InvalidOptionError
from hetpart.partitioner.assembly.device_use import device_uses
from hetpart.partitioner.assembly.explain import decisions
from hetpart.partitioner.assembly.write import certificate, footprint
from hetpart.partitioner.counterfactual import sides, together
from hetpart.partitioner.pins import matches
from hetpart.plan.explanation import Explanation, Forced
from hetpart.request import Priced, Request, RequestOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.frontend.model import Model
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.graph.ir import Graph, Op
    from hetpart.partitioner.assembly.assemble import Assembly

_SUGGESTIONS = 6


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedOp:
    """Why an op is where it is, and how that is shown."""

    explanation: Explanation

    def report(self, *, width: int = 100) -> str:
        """The explanation as text."""
        from hetpart.report.explain_text import explanation_parts
        from hetpart.report.layout import plain

        return plain(explanation_parts(self.explanation), width)


def explain(
    model: Model,
    node: str,
    *,
    budget: BudgetOption = None,
    hardware: str | PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[RequestOptions],
) -> ExplainedOp:
    """Why the op called ``node`` is where the best plan has it, and what it costs to have it elsewhere.

    Args:
        model: An ``.onnx`` or ``.pt2`` file, or a model in memory, PyTorch's too.
        node: An op's name, the name of a value it makes, or a pattern that matches one op. Of several ops of one FX
            node, or of one module that has no others in it, that which takes longest is explained.
        budget: As in ``hetpart.partition``.
        hardware: As in ``hetpart.partition``.
        progress: Called with the name of every stage as it begins.
        **options: Those of ``hetpart.partition``. A pin of the op itself is lifted to see what it costs.

    Raises:
        InvalidModelError: The model cannot be read, or an op runs nowhere.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: There is no such op, or an option cannot be understood.
        InfeasibleError: Nothing fits the budget.
    """
    say = progress or _silent
    request = Request.of(budget, options)
    machine = request.machine(hardware)
    budgets = request.resolved_budgets(machine)
    say("reading the model")
    imported = request.read(model)
    found = find_ops(node, imported)
    say("pricing its operators")
    priced = request.priced(imported.graph, machine)
    say("placing them")
    best = priced.placed(priced.formulated(budgets.nbytes))
    op = max(found, key=lambda one: _seconds(best, one))
    forced: list[Forced] = []
    for device in best.device_names:
        if device != best.device_names[int(best.solution.placement[op.id])]:
            say(f"placing them with {op.name} on {device}")
            forced.append(_forced(priced, best, budgets.nbytes, op, device))
    notes = (*budgets.notes, *priced.costs.notes)
    others = tuple(one.name for one in found if one is not op)
    said = replace(_explained(imported, best, op), asked=node if others else "", others=others)
    return ExplainedOp(replace(said, forced=tuple(forced), budgets=budgets.nbytes, notes=notes))


def _seconds(best: Assembly, op: Op) -> float:
    """What ``op`` takes where the plan has it."""
    return float(best.formulation.problem.seconds[best.solution.placement[op.id], op.id])


def _silent(stage: str) -> None:
    del stage


def _explained(imported: ImportedModel, best: Assembly, op: Op) -> Explanation:
    decision, solution, machine = decisions(best)[op.id], best.solution, best.costs.machine
    return Explanation(
        model=imported.name,
        path=str(imported.path or ""),
        machine=machine.name,
        origin=machine.origin,
        budgets={},
        op=op.name,
        op_type=op.op_type,
        scope=op.scope,
        device=decision.device,
        partition=decision.partition,
        partitions=solution.cut.partitions,
        reason=decision.reason,
        pinned=decision.pinned,
        together=tuple(best.graph.ops[other].name for other in together(best, op.id) if other != op.id),
        price=solution.price,
        seconds=solution.total_seconds,
        cost=solution.cost,
        lower_bound=solution.lower_bound,
        sides=sides(best, op.id),
        forced=(),
        source=_source(op),
        price_known=_price_known(best),
    )


def _price_known(best: Assembly) -> bool:
    budget = device_uses(best)[-1].budget_bytes
    return certificate(best.solution).price_known or budget is None or footprint(best) <= budget


def _source(op: Op) -> str:
    if op.source is None:
        return ""
    at = f" at {op.source.place}" if op.source.place else ""
    return f"FX node {op.source.node} ({op.source.target}){at}"


def _forced(priced: Priced, best: Assembly, budgets: dict[str, int], op: Op, device: str) -> Forced:
    """The best plan with ``op`` on ``device``. The bound of all plans is one of these too, unless a pin is lifted."""
    index = best.device_names.index(device)
    missing = priced.costs.ops[op.id].missing[index]
    if missing:
        return Forced(device, obstacle=missing)
    elsewhere = replace(priced, pins=dict(sorted({**priced.pins, op.id: device}.items())))
    try:
        found = elsewhere.placed(elsewhere.formulated(budgets))
    except InfeasibleError as error:
        return Forced(device, obstacle=error.message, required_bytes=error.required_bytes)
    except HetpartError as error:
        return Forced(device, obstacle=error.message)
    solution, lifted = found.solution, op.id in priced.pins
    bound = solution.lower_bound if lifted else max(solution.lower_bound, best.solution.lower_bound)
    return Forced(
        device=device,
        seconds=solution.total_seconds,
        cost=solution.cost,
        lower_bound=min(bound, solution.cost),
        partitions=solution.cut.partitions,
        peak_bytes=device_uses(found)[-1].peak_bytes,
    )


def find_ops(node: str, imported: ImportedModel) -> Sequence[Op]:
    """The op that ``node`` names: by its own name, by a value it makes, or by a pattern that matches it alone.

    A translation makes several of one FX node, as of a Linear's product and bias, and so does the body of an operator
    or of a function that is called: then they are all of that node, or of the innermost module ``node``.

    Raises:
        InvalidOptionError: there is none, or there are several otherwise.
    """
    graph = imported.graph
    made_of = [op for op in graph.ops if node in (op.source and op.source.node, op.origin and op.origin.name)]
    named = [op for op in graph.ops if op.name == node] or made_of or _maker(node, graph)
    pattern = parse_pattern(node)
    found = named or [op for op in graph.ops if matches(pattern, op)]
    if len(found) == 1 or (found and (named or all(op.scope == node for op in found))):
        return found
    if found:
        shown = ", ".join(repr(op.name) for op in found[:_SUGGESTIONS])
        raise InvalidOptionError(
            f"{node!r} matches {len(found)} ops of {graph.name!r}", hint=f"name one of them: {shown}{_more(found)}"
        )
    raise _unknown(node, imported)


def _maker(node: str, graph: Graph) -> list[Op]:
    makers = [value.producer for value in graph.values if value.name == node]
    return [graph.ops[maker] for maker in makers if maker is not None]


def _more(found: Sequence[Op]) -> str:
    return "" if len(found) <= _SUGGESTIONS else ", …"


def _unknown(node: str, imported: ImportedModel) -> InvalidOptionError:
    names = [op.name for op in imported.graph.ops]
    lowered = {name.lower(): name for name in names}
    close = [lowered[name] for name in get_close_matches(node.lower(), lowered, n=_SUGGESTIONS, cutoff=0.5)]
    inside = [name for name in names if node.lower() in name.lower()]
    near = list(dict.fromkeys([*close[:1], *inside, *close]))[:_SUGGESTIONS]
    known = ", ".join(map(repr, near or names[:_SUGGESTIONS]))
    shown = f"it has, for example, {known}" if known else "it has no ops"
    hint = f"did you mean {known}?" if near else shown
    if node in _nodes(imported):
        return InvalidOptionError(
            f"{node!r} of {imported.name!r} is not placed: what it computes is known before a run, or never returned",
            hint="it takes no time on any device",
        )
    return InvalidOptionError(f"{imported.name!r} has no op {node!r}", hint=hint)


def _nodes(imported: ImportedModel) -> frozenset[str]:
    """Names of the nodes of the model and of its file, those that are folded among them, and of what they make."""
    from hetpart.graph.load import read

    protos = [imported.proto]
    if imported.path is not None and imported.path.suffix == ".onnx" and imported.path.is_file():
        protos.append(read(imported.path).proto)
    return frozenset(name for proto in protos for one in proto.graph.node for name in (one.name, *one.output))
