"""HPM: whether the model fits its budget, and what takes the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.errors import InfeasibleError
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.plan.model import ResidencyState
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.linter.subject import Subject
    from hetpart.plan.figures import DeviceUse

PEAK_SHARE = 0.5
"""Of all that is held at a device's peak: one value that takes more decides it."""
WORTH_SHARING = 2**20
"""Bytes of a weight that is held twice."""
THIN = 0.02
"""Part of a budget that is hardly any."""
TABLE_BYTES = 64 * 2**20
_ROWS_READ = 0.1
"""Part of a table that a run reads at most, for its place to be in question."""
_LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND"})


@rule(
    "HPM001", "budget-exceeded", Severity.ERROR, Stage.FILE, tries=Stage.PLAN,
    hint="raise the budget, loosen the pins, or make the model smaller",
)  # fmt: skip
def budget_exceeded(subject: Subject) -> Iterator[Mark]:
    """No placement fits the budget.

    ## What it does
    Places the model under `--budget`, pins and all, and says what the smallest budget is that would do.

    ## Why is this bad
    The model does not run.

    ## Example
    `--pin '*=cuda:0' --budget 1GB` of a model of 2 GB.

    ## Use instead
    `--budget 1GB` alone: what does not fit runs on the CPU.
    """
    if isinstance(subject.problem, InfeasibleError):
        yield Mark(subject.problem.message, hint=subject.problem.hint)


@rule(
    "HPM002", "value-larger-than-budget", Severity.WARNING, Stage.GRAPH,
    hint="split the operator that makes it, or raise --budget: no placement can have it on the accelerator",
)  # fmt: skip
def value_larger_than_budget(subject: Subject) -> Iterator[Mark]:
    """A single value that does not fit the accelerator's budget.

    ## What it does
    Compares every activation and weight with the budget.

    ## Why is this bad
    The ops that make and read it can only run on the CPU, whatever the rest does.

    ## Example
    Logits of 128 × 2048 × 250,000 floats, 262 GB.

    ## Use instead
    The logits of the last position only.
    """
    graph, budget = subject.graph, subject.budget_bytes
    for value in graph.values if budget else ():
        if value.nbytes > (budget or 0) and (subject.readers[value.id] or value.producer is not None):
            op = "" if value.producer is None else graph.ops[value.producer].name
            yield Mark(
                f"{value.name!r} takes {format_bytes(value.nbytes)}, the budget is {format_bytes(budget or 0)}",
                anchor=value.name,
                op=op,
            )


@rule(
    "HPM003", "duplicate-initializer", Severity.WARNING, Stage.PLAN,
    hint="--colocate the ops that read it",
)  # fmt: skip
def duplicate_initializer(subject: Subject) -> Iterator[Mark]:
    """A weight that two devices hold.

    ## What it does
    Finds weights of a megabyte and more that a plan keeps on the host and on the accelerator.

    ## Why is this bad
    It is in memory twice. The plan found that cheaper than a copy; on a machine short of memory it need not be.

    ## Example
    A tied embedding: its lookup runs on the host and its logits on the accelerator.

    ## Use instead
    `--colocate 'embedding,lm_head'`
    """
    places: dict[str, list[str]] = {}
    residencies = subject.planned.residencies
    for residency in residencies:
        if residency.nbytes >= WORTH_SHARING:
            places.setdefault(residency.weight, []).append(residency.device)
    sizes = {residency.weight: residency.nbytes for residency in residencies}
    for weight, devices in places.items():
        if len(devices) > 1:
            yield Mark(f"{weight!r} of {format_bytes(sizes[weight])} is held on {' and '.join(devices)}", anchor=weight)


@rule(
    "HPM004", "peak-from-one-value", Severity.WARNING, Stage.PLAN,
    hint="split the op that makes it, over the batch or over rows",
)  # fmt: skip
def peak_from_one_value(subject: Subject) -> Iterator[Mark]:
    """One activation that takes most of an accelerator's peak.

    ## What it does
    Looks at what is alive when a device holds most.

    ## Why is this bad
    All of the budget is spent on a moment.

    ## Example
    Attention scores of heads × 8192 × 8192.

    ## Use instead
    Attention in blocks.
    """
    for use in _accelerators(subject):
        for value in use.alive_at_peak[:1]:
            if value.nbytes > PEAK_SHARE * use.peak_bytes:
                yield Mark(
                    f"{value.name!r} takes {format_bytes(value.nbytes)} of the {format_bytes(use.peak_bytes)} that "
                    f"{use.device} holds at most",
                    anchor=value.name,
                )


@rule(
    "HPM005", "thin-headroom", Severity.NOTE, Stage.PLAN, default=False,
    hint="plan with --headroom 5%",
)  # fmt: skip
def thin_headroom(subject: Subject) -> Iterator[Mark]:
    """A plan that leaves next to nothing of the budget.

    ## What it does
    Compares what the plan leaves free of every accelerator's budget with 2 % of it.

    ## Why is this bad
    A driver, another process or fragments of an arena take memory that no plan knows of.

    ## Example
    `--budget 24GB` on a GPU of 24 GB.

    ## Use instead
    `--budget 24GB --headroom 5%`
    """
    for use in _accelerators(subject):
        left = use.headroom_bytes
        if left is not None and use.budget_bytes and left < THIN * use.budget_bytes:
            yield Mark(f"{format_bytes(left)} of {format_bytes(use.budget_bytes)} on {use.device} are left")


@rule(
    "HPM006", "table-on-accelerator", Severity.NOTE, Stage.PLAN,
    hint="--pin the lookup to the CPU if the budget is needed elsewhere",
)  # fmt: skip
def table_on_accelerator(subject: Subject) -> Iterator[Mark]:
    """A large table of which a run reads little, in the accelerator's memory.

    ## What it does
    Finds tables of 64 MiB and more on an accelerator of which a run reads less than a tenth.

    ## Why is this bad
    It need not be: the plan found room. But it is the first thing to go when the budget shrinks.

    ## Example
    An embedding of 400 MB, of which a run reads 128 rows.

    ## Use instead
    `--pin 'op:Gather=cpu'`
    """
    host = subject.planned.devices[HOST].device
    resident = {
        residency.weight: residency
        for residency in subject.planned.residencies
        if residency.device != host and residency.state is ResidencyState.RESIDENT
    }
    graph = subject.graph
    for op in graph.ops:
        if op.op_type in _LOOKUPS and op.inputs[0] is not None:
            table, made = graph.values[op.inputs[0]], graph.values[op.results[0]]
            if table.name in resident and table.nbytes >= TABLE_BYTES and made.nbytes < _ROWS_READ * table.nbytes:
                yield Mark(
                    f"{table.name!r} of {format_bytes(table.nbytes)} lies on {resident[table.name].device}, and a run "
                    f"reads {format_bytes(made.nbytes)} of it",
                    anchor=table.name,
                    op=op.name,
                )


def _accelerators(subject: Subject) -> tuple[DeviceUse, ...]:
    return subject.planned.devices[HOST + 1 :]
