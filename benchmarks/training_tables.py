# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Tables inside a compiled step, all of it on the host: what a step takes, and its lookups, sorting and updates of it.

    python -m benchmarks.training_tables [--only by_rows] [--dense-rows 10000000]

4,096 uniform ids, new in every step, of tables of 64 numbers a row: steps with an optimizer of rows over tables of
100,000 to 10 M rows, in turns, reach within 20 % of one another; beside them the same step with dense Adam, reach 100
times. The dense step holds about seven times its table. After every step PyTorch's own ``index_select`` and
``index_add_`` go to as many rows of the table and of what its optimizer keeps: what they take longer for a larger
table, memory takes. Then Wide&Deep at MindSpore's shape: 16,000 samples of 39 ids from 200,000, uniform, so that nearly
every row is touched; LazyAdam for rows of 80, FTRL for rows of 1.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from benchmarks.measure import Spread, emit, machine_facts, say
from benchmarks.models.recommenders import WideDeep, clicked
from hetpart.frontend.calls import Call
from hetpart.training import Adam, Group, Groups, LazyAdam, SparseFTRL, SparseSGD
from hetpart.training.compiled import Running, capture, place
from hetpart.training.step import Step

IDS, WIDTH, STEPS = 4096, 64, 150
BATCH, FIELDS, VOCABULARY, CROSSED, HOT = 16_000, 39, 200_000, 1_000_000, 30
REFERENCE = {"updates": 0.142865 + 0.054492, "lookups": 0.015521 + 0.003066}
"""Seconds in the logs of MindSpore's Host&Device tutorial, r1.10, of another machine."""
PYTORCH = "pytorch: index_select and index_add_"
RULES = (LazyAdam(), SparseSGD(0.1))
Batches = Sequence[tuple[Tensor, ...]]
Times = dict[str, list[float]]


class Rows(nn.Module):
    """A table, and a loss of all that is looked up in it."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, WIDTH, _weight=torch.zeros(rows, WIDTH))

    def forward(self, ids: Tensor, wanted: Tensor) -> Tensor:
        return (self.table(ids) - wanted).square().mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest table")
    parser.add_argument("--dense-rows", type=int, default=10_000_000, help="of the table of the dense step")
    parser.add_argument("--only", choices=["by_rows", "dense_adam", "wide_and_deep"], help="one part")
    parser.add_argument("--into", type=Path, metavar="FILE", help="JSON whose other parts are printed too")
    arguments = parser.parse_args()
    facts = machine_facts() | {"torch": torch.__version__, "threads": torch.get_num_threads()}
    parts: dict[str, Callable[[], Any]] = {
        "by_rows": lambda: _by_rows(arguments.rows),
        "dense_adam": lambda: {"rows": arguments.dense_rows, "step": _dense(arguments.dense_rows)},
        "wide_and_deep": _wide_and_deep,
    }
    before: dict[str, Any] = {} if arguments.into is None else json.loads(arguments.into.read_text())
    found, commits = dict[str, Any](), dict[str, Any]()
    for name, part in parts.items():
        if arguments.only in (None, name):
            found[name], commits[name] = part(), facts["commit"]
        elif name in before:
            found[name], commits[name] = before[name], before["commits"][name]
    emit("training_tables", {"machine": facts, "commits": commits} | found)


def _by_rows(rows: int) -> dict[str, Any]:
    sizes = [rows // 100, rows // 10, rows]
    found = {type(rule).__name__: _sparse(sizes, rule) for rule in RULES}
    return {name: spreads | _compared(spreads) for name, spreads in found.items()}


def _compared(found: dict[str, dict[str, Spread]]) -> dict[str, Any]:
    """The slowest table over the fastest: of whole steps, of their ops at tables alone, and of PyTorch's own."""
    others = ("step", PYTORCH)
    seconds = {
        "step": [spreads["step"].median for spreads in found.values()],
        "ops": [sum(one.median for name, one in spreads.items() if name not in others) for spreads in found.values()],
        "pytorch": [spreads[PYTORCH].median for spreads in found.values()],
    }
    return {f"slowest_over_fastest_{what}": round(max(own) / min(own), 3) for what, own in seconds.items()}


def _placed(model: nn.Module, loss: Callable[..., Tensor], optimizer: Any, batch: tuple[Tensor, ...]) -> Step:
    captured = capture(model, loss, optimizer=optimizer, example_batch=batch)
    return place(captured, running=Running(), hardware="l4", budget=0)


@contextmanager
def _told(times: Times) -> Generator[None]:
    """Adds to ``times`` the seconds of every call of PyTorch's, by operator and shape of what it makes."""
    write, call = Call.write, Call.__call__

    def note(made: Call, shape: Sequence[int], began: float) -> None:
        name = f"{made.target.name().partition('::')[2]} [{','.join(map(str, shape))}]"
        times.setdefault(name, []).append(perf_counter() - began)

    def written(self: Call, inputs: Any, into: Any, device: Any) -> None:
        began = perf_counter()
        write(self, inputs, into, device)
        note(self, into[0].shape, began)

    def called(self: Call, inputs: Any, device: Any) -> Any:
        began = perf_counter()
        made = call(self, inputs, device)
        note(self, made[0].shape, began)
        return made

    with patch.object(Call, "write", written), patch.object(Call, "__call__", called):
        yield


@dataclass(slots=True)
class _Timed:
    """A step over tables of one size, and what it took so far."""

    step: Step
    batches: Batches
    beside: Callable[[Tensor], object] | None = None
    """Comes after each step, of the ids of a batch that is half of them away."""
    times: Times = field(default_factory=dict)

    def again(self, number: int) -> None:
        with _told(self.times):
            self._note("step", lambda: self.step(*self.batches[number % len(self.batches)]))
        beside = self.beside
        if beside is not None:
            ids = self.batches[(number + len(self.batches) // 2) % len(self.batches)][0]
            self._note(PYTORCH, lambda: beside(ids))

    def _note(self, name: str, work: Callable[[], object]) -> None:
        began = perf_counter()
        work()
        self.times.setdefault(name, []).append(perf_counter() - began)


def _timed(tables: Sequence[_Timed], steps: int) -> list[dict[str, Spread]]:
    """In turns. Every page that the steps touch has been touched once before."""
    for timed in tables:
        for batch in timed.batches:
            timed.step(*batch)
    for number in range(steps):
        for timed in tables:
            timed.again(number)
    for timed in tables:
        timed.step.close()
    return [{name: Spread.of(seconds) for name, seconds in timed.times.items()} for timed in tables]


def _batches(rows: int) -> Batches:
    drawn = torch.Generator().manual_seed(0)
    return [
        (torch.randint(0, rows, (IDS,), generator=drawn), torch.randn(IDS, WIDTH, generator=drawn)) for _ in range(50)
    ]


def _row_loss(model: nn.Module, *batch: Tensor) -> Tensor:
    return model(*batch)


def _sparse(sizes: Sequence[int], rule: Any) -> dict[str, dict[str, Spread]]:
    say(f"training_tables: {type(rule).__name__} over {', '.join(f'{rows:,}' for rows in sizes)} rows")
    spreads = _timed([_of_rows(rows, rule) for rows in sizes], STEPS)
    return {str(rows): spread for rows, spread in zip(sizes, spreads, strict=True)}


def _of_rows(rows: int, rule: Any) -> _Timed:
    batches = _batches(rows)
    step = _placed(Rows(rows), _row_loss, rule, batches[0])
    states = step.session.state()
    kept = [torch.from_numpy(states.view(name)) for name in states]
    for tensor in kept:  # all pages of table and state in memory
        tensor.fill_(0.1)
    return _Timed(step, batches, _by_pytorch(kept))


def _by_pytorch(kept: Sequence[Tensor]) -> Callable[[Tensor], object]:
    """Reads rows of every tensor into memory that is there, and adds to them where they lie."""
    rows, nothing = torch.empty(IDS, WIDTH), torch.zeros(IDS, WIDTH)

    def rows_of_all(ids: Tensor) -> None:
        for tensor in kept:
            torch.index_select(tensor, 0, ids, out=rows)
            tensor.index_add_(0, ids, nothing)

    return rows_of_all


def _dense(rows: int) -> Spread:
    say(f"training_tables: dense Adam over {rows:,} rows")
    batches = _batches(rows)
    return _timed([_Timed(_placed(Rows(rows), _row_loss, Adam(), batches[0]), batches[:3])], 5)[0]["step"]


def _wide_and_deep() -> dict[str, Any]:
    say("training_tables: Wide&Deep")
    drawn = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randint(0, VOCABULARY, (BATCH, FIELDS), generator=drawn),
            torch.ones(BATCH, FIELDS),
            torch.randint(0, CROSSED, (BATCH, HOT), generator=drawn),
            torch.randint(0, 2, (BATCH,), generator=drawn).float(),
        )
        for _ in range(3)
    ]
    ftrl = SparseFTRL(0.05, beta=0.0, l1=1e-8, l2=1e-8, initial_accumulator=1.0)
    rules = Groups(Adam(3.5e-4), (Group("deep.*", LazyAdam(3.5e-4)), Group(("wide.*", "crossed.*"), ftrl)))
    (found,) = _timed([_Timed(_placed(WideDeep(VOCABULARY, CROSSED), clicked, rules, batches[0]), batches)], 24)
    fields = {
        "updates": (f"lazyadam [{VOCABULARY},80]", f"sparseftrl [{VOCABULARY},1]"),
        "lookups": (f"lookup [{BATCH},{FIELDS},80]", f"lookup [{BATCH},{FIELDS},1]"),
        "sorting": (f"arranged [{BATCH * FIELDS}]",),
    }
    sums = {what: round(sum(found[name].median for name in names), 5) for what, names in fields.items()}
    return {
        "seconds": found,
        "of_the_fields": sums,
        "reference_seconds": REFERENCE,
        "reached": sums["updates"] + sums["sorting"] < REFERENCE["updates"] and sums["lookups"] < REFERENCE["lookups"],
    }


if __name__ == "__main__":
    main()
