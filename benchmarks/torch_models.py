# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""PyTorch models through plans, and through ``torch.compile(backend="hetpart")``, against eager PyTorch.

    python -m benchmarks.torch_models > benchmarks/results/torch_models.json
    python -m benchmarks.torch_models --only BERT --only T5

Every model of ``benchmarks/models/pytorch_models.py`` is partitioned at 25, 50 and 75 % of what it takes whole on the
accelerator, run with the accelerator emulated, and compiled at 50 %; each time under the best placement, which leaves
such small models whole, and under one by chance that cuts them and copies between the devices. Beside them the small
functions of ``tests/dynamo/small.py`` are compiled, under both. A row counts where a plan ran: Dynamo runs some code
eagerly. It traces ``nn.LSTM`` with ``torch._dynamo.config.allow_rnn``, which is set here as users do themselves.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
from torch.utils import _pytree as pytree

import hetpart
from benchmarks.measure import emit, machine_facts, say
from benchmarks.models.pytorch_models import MODELS, Called, built
from benchmarks.table import figure, print_table
from hetpart.dynamo.backend import hetpart as backend
from tests.dynamo.small import Small, cases

HARDWARE = "emulated"
SHARES = (0.25, 0.5, 0.75)
PLACEMENTS = ("optimal", "random:1")
SEEDS = 9
"""Placements by chance that are tried for one that cuts."""
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (1e-2, 1e-3),
    torch.bfloat16: (2e-2, 1e-2),
}
"""Relative and absolute, of every element."""
COLUMNS = {
    "what": figure("name"),
    "how": figure("how"),
    "equal": figure("equal"),
    "worst": figure("worst", "{:.1e}"),
    "plans": figure("plans"),
    "copies": figure("copies"),
    "on the accelerator": figure("share", "{:.0%}"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    name: str
    how: str
    equal: bool
    worst: float | None = None
    """Largest difference of an element, absolute."""
    plans: int = 0
    share: float | None = None
    """Of the ops that are on the accelerator."""
    copies: int = 0
    """Between the devices, in all plans."""
    error: str = ""

    @property
    def counts(self) -> bool:
        """Whether it says something of a plan."""
        return self.plans > 0 or not self.equal


def compared(name: str, how: str, made: Callable[[list[Any]], Any], expected: Any) -> Row:
    """What ``made`` returns beside ``expected``; it appends the plans it makes to its argument."""
    plans: list[hetpart.PartitionedModel] = []
    try:
        worst, equal = difference(made(plans), expected)
    except Exception as error:  # noqa: BLE001 - it is what is reported
        return Row(name, how, equal=False, error=" ".join(str(error).split())[:300])
    decisions = [decision for planned in plans for decision in planned.plan.decisions]
    moved = sum(decision.device != "cpu" for decision in decisions)
    share = moved / len(decisions) if decisions else None
    return Row(name, how, equal, worst, len(plans), share, sum(len(planned.plan.transfers) for planned in plans))


def difference(made: Any, expected: Any) -> tuple[float, bool]:
    """The largest difference of an element, and whether structure, types and all elements are within tolerance."""
    (flat, spec), (wanted, wanted_spec) = pytree.tree_flatten(made), pytree.tree_flatten(expected)
    if spec != wanted_spec:
        return float("inf"), False
    worst, equal = 0.0, True
    for one, other in zip(flat, wanted, strict=True):
        if not isinstance(other, torch.Tensor):
            equal &= one == other
            continue
        rtol, atol = TOLERANCE.get(other.dtype, (0.0, 0.0))
        same_form = one.dtype == other.dtype and one.shape == other.shape
        equal &= same_form and torch.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
        if same_form and other.numel():
            worst = max(worst, float((one.double() - other.double()).nan_to_num().abs().max()))
    return worst, equal


@dataclass(frozen=True, slots=True)
class Scopes:
    """What a plan says of where its ops are from."""

    name: str
    ops: int
    sourced: int
    """Those with a line of the user's code."""
    scoped: int
    """Of these, those whose scope is the path of a module, the one that PyTorch notes for their FX node."""


def scopes_of(name: str, exported: Any, planned: hetpart.PartitionedModel) -> Scopes:
    """``planned``, of ``exported``, counted."""
    nodes = exported.program.graph.nodes
    stacks = {node.name: list((node.meta.get("nn_module_stack") or {"": ("", "")}).values()) for node in nodes}
    paths = {node: stack[-1][0] for node, stack in stacks.items()}
    modules = {path for path, _ in exported.source.named_modules()}
    scopes = {decision.op: decision.scope for decision in planned.plan.decisions if decision.line}
    found = {op.name: paths.get(op.source.node) for op in planned.graph.ops if op.source and op.name in scopes}
    scoped = sum(scope in modules and found.get(op) == scope for op, scope in scopes.items())
    return Scopes(name, len(planned.plan.decisions), len(scopes), scoped)


def of_model(name: str, scopes: list[Scopes]) -> Iterator[Row]:
    """Its plans, and itself compiled; what a plan says of where its ops are from goes to ``scopes``."""
    called = built(name)
    expected = called.result()
    whole: hetpart.PartitionedModel | None = None
    exported: Any = None
    try:
        exported = hetpart.export(called.module, args=called.args, kwargs=called.kwargs)
        whole = hetpart.partition(exported, hardware=HARDWARE)
        scopes.append(scopes_of(name, exported, whole))
    except Exception as error:  # noqa: BLE001 - it is what is reported
        yield Row(name, "partition", equal=False, error=" ".join(str(error).split())[:300])
    footprint = whole.plan.footprint_bytes if whole is not None else 400_000
    for share, by_chance in product(SHARES if whole is not None else (), (False, True)):
        budget = int(share * footprint)
        placement = cutting(exported, budget) if by_chance else "optimal"
        run = partial(planned, exported, called, budget, placement=placement)
        yield compared(name, f"{share:.0%}, {placement}", run, expected)
    for placement in PLACEMENTS:
        run = partial(compiled, called, footprint // 2, placement=placement)
        yield compared(name, f"torch.compile, {placement}", run, expected)


def cutting(exported: Any, budget: int) -> str:
    """The first placement by chance that copies between the devices; the last one tried where none does."""
    for seed in range(1, SEEDS):
        plan = hetpart.partition(exported, hardware=HARDWARE, budget=budget, placement=f"random:{seed}").plan
        if plan.transfers:
            return f"random:{seed}"
    return f"random:{SEEDS}"


def planned(exported: Any, called: Called, budget: int, plans: list[Any], placement: str = "optimal") -> Any:
    """Of a plan within ``budget``."""
    plans.append(hetpart.partition(exported, hardware=HARDWARE, budget=budget, placement=placement))
    return plans[0].to_module(emulate=True)(*called.args, **called.kwargs)


def compiled(called: Called, budget: int, plans: list[Any], placement: str = "optimal") -> Any:
    """Of the module, compiled, in its second call."""
    torch._dynamo.reset()
    options = {"hardware": HARDWARE, "emulate": True, "budget": budget, "placement": placement}
    run = torch.compile(called.module, backend=backend, options={**options, "on_plan": plans.append})
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True):
        run(*called.args, **called.kwargs)
        return run(*called.args, **called.kwargs)


def of_small(name: str, small: Small, placement: str) -> Row:
    """Results of a small function, and what became of its arguments."""

    def outcomes(code: Any) -> list[Any]:
        calls = copy.deepcopy(small.calls)
        with torch.no_grad():
            return [[code(*call) for call in calls], list(calls)]

    def run(plans: list[Any]) -> list[Any]:
        torch._dynamo.reset()
        options = {"hardware": HARDWARE, "emulate": True, "placement": placement, "on_plan": plans.append}
        code = copy.deepcopy(small.code)
        return outcomes(torch.compile(code, backend=backend, options=options, dynamic=small.dynamic))

    return compared(name, placement, run, outcomes(copy.deepcopy(small.code)))


def main() -> None:
    """Prints a table, and the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="a model of the list, or `small`; may be given again")
    wanted = parser.parse_args().only
    facts = machine_facts()
    rows: list[Row] = []
    scopes: list[Scopes] = []
    warnings.simplefilter("ignore")
    for name in MODELS:
        if wanted is None or name in wanted:
            rows += of_model(name, scopes)
            say(f"{name}: {sum(row.equal for row in rows)} of {len(rows)} equal")
    for name, small in cases().items() if wanted is None or "small" in wanted else ():
        rows += [of_small(name, small, placement) for placement in PLACEMENTS]
    print_table(COLUMNS, map(asdict, rows))
    for row in rows:
        if row.error:
            say(f"{row.name}, {row.how}: {row.error}")
    counted = [row for row in rows if row.counts]
    cut = [row for row in counted if row.copies]
    say(f"{_equal(counted)} of {len(counted)} equal, and {_equal(cut)} of the {len(cut)} whose plans cut and copy")
    sourced, scoped = (sum(getattr(one, what) for one in scopes) for what in ("sourced", "scoped"))
    say(f"{scoped} of {sourced} ops with a line of the user's code carry the path of their module")
    figures = {
        "equal": _equal(counted), "compared": len(counted), "equal_of_cut": _equal(cut), "cut": len(cut),
        "sourced": sourced, "scoped": scoped,
    }  # fmt: skip
    listed = {"scopes": [asdict(one) for one in scopes], "rows": [asdict(row) for row in rows]}
    emit("torch_models", {"machine": facts, "torch": torch.__version__, **figures, **listed})


def _equal(rows: Sequence[Row]) -> int:
    return sum(row.equal for row in rows)


if __name__ == "__main__":
    main()
