"""HPP: whether a plan is still the plan of its model and machine, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.errors import InvalidBundleError
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.plan.fingerprint import verify_sources
from hetpart.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.linter.subject import Subject

MOST_GAP = 0.05
MOST_REGRESSION = 0.05
_ROUNDING = 1e-6


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
            f"within {found.gap:.1%} of the best, no nearer for certain"
        )


@rule(
    "HPP004", "plan-regressed", Severity.ERROR, Stage.PLAN,
    hint="see what moved: the ops, weights or shapes that the change brought; accept it by committing the new plan",
)  # fmt: skip
def plan_regressed(subject: Subject) -> Iterator[Mark]:
    """The model's best plan is slower than the one that was kept.

    ## What it does
    Plans the model anew and compares the predicted latency with that of `--plan`, 5 % allowed.

    ## Why is this bad
    A change made the model slower on the same machine under the same budget.

    ## Example
    A pull request that adds an operator without a CUDA kernel to every layer.

    ## Use instead
    An operator that has one.
    """
    kept, plan = subject.kept_plan, subject.planned
    if kept is None or plan is kept:
        return
    before, after = kept.prediction.seconds, plan.prediction.seconds
    if after > before * (1 + MOST_REGRESSION):
        slower = f"{after / before - 1:.1%} more than {format_seconds(before)}"
        yield Mark(f"a run is predicted to take {format_seconds(after)}, {slower}")


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
        if baseline.seconds is not None and baseline.fits and baseline.seconds < ours * (1 - _ROUNDING):
            yield Mark(f"{baseline.name} takes {format_seconds(baseline.seconds)}, the plan {format_seconds(ours)}")
