"""HPP: whether a plan is still the plan of its model and machine, and how good it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.errors import InvalidBundleError
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.plan.fingerprint import verify_sources
from hetpart.units import format_bytes, format_count, format_percent, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.linter.subject import Subject
    from hetpart.plan.model import Decision, Plan

MOST_GAP = 0.05
MOST_REGRESSION = 0.05
_ROUNDING = 1e-6
_SHOWN = 3


@rule(
    "HPP001", "stale-plan", Severity.ERROR, Stage.FILE,
    hint="run `hetpart partition` again and commit the new plan",
)  # fmt: skip
def stale_plan(subject: Subject) -> Iterator[Mark]:
    """A plan that was made for another version of the model.

    ## What it does
    Compares the digests in the plan with the model's files.

    ## Why is this bad
    Its figures, and its partitions' names, are of a model that is gone.

    ## Example
    `model.onnx` exported anew, `model.hetpart` as it was.

    ## Use instead
    `hetpart partition model.onnx -o model.hetpart` in the same commit.
    """
    path, plan = subject.loaded.path, subject.kept_plan
    if plan is None or path is None or not plan.model.sources:
        return
    try:
        verify_sources(path, plan.model.sources)
    except InvalidBundleError as error:
        yield Mark(error.message)


@rule(
    "HPP002", "profile-mismatch", Severity.WARNING, Stage.FILE,
    hint="plan for the machine at hand: `hetpart partition --hardware …`, or `hetpart calibrate` first",
)  # fmt: skip
def profile_mismatch(subject: Subject) -> Iterator[Mark]:
    """A plan that was made for another machine.

    ## What it does
    Compares the machine that the plan was priced for with the one that `--hardware` names.

    ## Why is this bad
    What is fastest on one machine need not be on another, and neither latency nor peak hold.

    ## Example
    A plan for `l4+epyc`, linted with `--hardware h100+epyc`.

    ## Use instead
    A plan for each machine.
    """
    plan, machine = subject.kept_plan, subject.machine
    if plan is None or machine is None or plan.machine.digest == machine.digest:
        return
    same = plan.machine.name == machine.name
    what = f"other figures of {machine.name}" if same else f"{plan.machine.name}, not for {machine.name}"
    yield Mark(f"the plan was made for {what}")


@rule(
    "HPP003", "gap-above-limit", Severity.NOTE, Stage.PLAN,
    hint="a longer --time-limit finds better plans or better bounds",
)  # fmt: skip
def gap_above_limit(subject: Subject) -> Iterator[Mark]:
    """A plan that may be far from the best one.

    ## What it does
    Compares the certified gap with 5 %.

    ## Why is this bad
    A better placement may exist, and the search had no time to find it, or to prove that there is none.

    ## Example
    `--time-limit 1` for a model of ten thousand ops.

    ## Use instead
    `--time-limit 60`
    """
    found = subject.planned.certificate
    if found.gap > MOST_GAP:
        yield Mark(
            f"the plan takes {format_seconds(found.cost)} and the bound is {format_seconds(found.lower_bound)}: it is "
            f"within {format_percent(found.gap)} of the best, no nearer for certain"
        )


@rule(
    "HPP004", "plan-regressed", Severity.ERROR, Stage.PLAN,
    hint="see what moved: the ops, weights or shapes that the change brought; accept it by committing the new plan",
)  # fmt: skip
def plan_regressed(subject: Subject) -> Iterator[Mark]:
    """The model's best plan is worse than the one that was kept: slower, larger, or with more on the CPU.

    ## What it does
    Plans the model anew under `--budget` and compares it with `--plan`: the predicted latency and what every device
    holds at most, 5 % allowed each; and the ops that were on an accelerator and are on the CPU now. Ops are told apart
    by module and type, which a new export keeps.

    ## Why is this bad
    A change made the model slower or larger on the same machine under the same budget.

    ## Example
    A pull request that adds an operator without a CUDA kernel to every layer.

    ## Use instead
    An operator that has one.
    """
    kept, plan = subject.kept_plan, subject.planned
    if kept is not None and plan is not kept:
        yield from _slower(kept, plan)
        yield from _larger(kept, plan)
        yield from _moved_to_the_host(kept, plan)


@rule(
    "HPP005", "baseline-better", Severity.WARNING, Stage.PLAN,
    hint="partition again: hetpart returns a baseline where it is better, so this plan was made otherwise",
)  # fmt: skip
def baseline_better(subject: Subject) -> Iterator[Mark]:
    """A simple rule would have placed the model better than the plan does.

    ## What it does
    Compares the plan's predicted latency with those of the other rules in it.

    ## Why is this bad
    The plan was given by hand or by chance, and costs time.

    ## Example
    `--placement random:1`

    ## Use instead
    `--placement optimal`
    """
    ours = subject.planned.prediction.seconds
    for baseline in subject.planned.baselines:
        asked = baseline.fits and not baseline.beyond
        if asked and baseline.seconds is not None and baseline.seconds < ours * (1 - _ROUNDING):
            yield Mark(f"{baseline.name} takes {format_seconds(baseline.seconds)}, the plan {format_seconds(ours)}")


def _slower(kept: Plan, plan: Plan) -> Iterator[Mark]:
    before, after = kept.prediction.seconds, plan.prediction.seconds
    if after > before * (1 + MOST_REGRESSION):
        more = f"{format_percent(after / before - 1)} more than {format_seconds(before)}" if before else ""
        slower = more or "and took no time before"
        yield Mark(f"a run is predicted to take {format_seconds(after)}, {slower}")


def _larger(kept: Plan, plan: Plan) -> Iterator[Mark]:
    held = {use.device: use.peak_bytes for use in kept.devices}
    for use in plan.devices:
        before = held.get(use.device, 0)
        if use.peak_bytes > before * (1 + MOST_REGRESSION):
            yield Mark(
                f"{use.device} holds {format_bytes(use.peak_bytes)} at most, and held {format_bytes(before)}",
                anchor=use.device,
            )


def _moved_to_the_host(kept: Plan, plan: Plan) -> Iterator[Mark]:
    """One mark for all: where a block moves, each of its ops does."""
    here, there = _sides(plan)
    once_here, once_there = _sides(kept)
    moved = (here - once_here) & (once_there - there)
    if moved:
        host = plan.devices[HOST].device
        names = [one.op for one in plan.decisions if one.device == host and _kind(one) in moved]
        more = f" and {moved.total() - _SHOWN} more" if moved.total() > _SHOWN else ""
        listed = ", ".join(map(repr, names[: min(_SHOWN, moved.total())]))
        yield Mark(
            f"{format_count(moved.total(), 'op')} moved from the accelerator to the CPU: {listed}{more}",
            anchor="moved to the CPU",
            op=names[0],
        )


def _sides(plan: Plan) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """How many ops of every kind are on the host, and how many elsewhere."""
    host = plan.devices[HOST].device
    here = Counter(_kind(one) for one in plan.decisions if one.device == host)
    return here, Counter(_kind(one) for one in plan.decisions if one.device != host)


def _kind(decision: Decision) -> tuple[str, str]:
    return decision.scope or decision.op, decision.op_type
