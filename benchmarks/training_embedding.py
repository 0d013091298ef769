"""Embedding tables on the host: lookups into given buffers, and updates of the rows that a batch touched.

    python -m benchmarks.training_embedding [--rows 10000000]

Wide&Deep at MindSpore's shape, 16,000 samples of 39 ids from 200,000, uniform, so that nearly every row is touched:
the logs of its Host&Device tutorial give 142.9 ms for LazyAdam, 54.5 ms for FTRL, 15.5 and 3.1 ms for the lookups.
Beside the lookup stand the same of sorted ids, whose rows lie side by side, and a copy of as many bytes. Then
a table of 10 M × 64: a sparse step (lookup, distinct ids, update) beside the dense one of PyTorch (lookup, dense
gradient, fused update), beside the same in files, and beside smaller tables: reach 100 times, and within 20 % of one
another; PyTorch's own ``index_select`` and ``index_add_`` of as many rows of each are beside them, since what those
take longer over a larger table, memory takes. Then the 26 tables of Criteo's Kaggle set at their real rows, as tables
of their own and as one whose ids are offset.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.training.data import KAGGLE_CARDINALITIES, Clicks
from hetpart.training.embedding import Bags, Table, lookup, lookup_bags, mapped_table, unique
from hetpart.training.optimizers import Adam, LazyAdam, RowOptimizer, SparseAdagrad, SparseFTRL, SparseSGD

BATCH, FIELDS, VOCABULARY, DEEP = 16_000, 39, 200_000, 80
REFERENCE = {"update_deep": 0.142865, "update_wide": 0.054492, "lookup_deep": 0.015521, "lookup_wide": 0.003066}
"""Seconds in the logs of MindSpore's Host&Device tutorial, r1.10."""
IDS, WIDTH = 4096, 64
ROUNDS = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest table")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the table in files is made")
    parser.add_argument("--only", action="append", help="a part, as the JSON calls it; may be given again")
    parser.add_argument("--into", type=Path, metavar="FILE", help="JSON whose other parts are printed too")
    arguments = parser.parse_args()
    rows = arguments.rows
    facts = machine_facts() | {"torch": torch.__version__, "threads": torch.get_num_threads()}
    parts: dict[str, Callable[[], Any]] = {
        "wide_and_deep": _wide_and_deep,
        "bags": _bags,
        "tables": lambda: _tables(rows),
        "mapped_lazy_adam": lambda: _mapped(rows, arguments.folder),
        "criteo_kaggle": _criteo,
    }
    before: dict[str, Any] = {} if arguments.into is None else json.loads(arguments.into.read_text())
    found, commits = dict[str, Any](), dict[str, Any]()
    for name, part in parts.items():
        if arguments.only is None or name in arguments.only:
            found[name], commits[name] = part(), facts["commit"]
        elif name in before:
            found[name], commits[name] = before[name], before["commits"][name]
    emit("training_embedding", {"machine": facts, "commits": commits} | found)


def _tables(rows: int) -> dict[str, Any]:
    """Sparse steps over tables of three sizes, and a dense one over the largest."""
    sizes = [_sparse(rows // 100, rule) | _sparse(rows // 10, rule) | _sparse(rows, rule) for rule in RULES]
    dense = _dense(rows)
    return {
        "by_rows": [_compared(type(rule).__name__, found) for rule, found in zip(RULES, sizes, strict=True)],
        "dense_adam": dense,
        "dense_over_sparse": round(dense.median / sizes[0][rows]["step"].median, 1),
    }


RULES: tuple[RowOptimizer, ...] = (LazyAdam(), SparseAdagrad(), SparseSGD(0.1))


def _compared(name: str, found: dict[int, dict[str, Spread]]) -> dict[str, Any]:
    medians = {what: [spreads[what].median for spreads in found.values()] for what in ("step", "pytorch")}
    return {
        "optimizer": name,
        "seconds": {str(rows): spreads for rows, spreads in found.items()},
        "slowest_over_fastest": {what: round(max(own) / min(own), 3) for what, own in medians.items()},
    }


def _timed(rivals: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, Spread]:
    interleaved(list(rivals.values()), 3)
    return dict(zip(rivals, map(Spread.of, interleaved(list(rivals.values()), rounds)), strict=True))


def _wide_and_deep() -> dict[str, Any]:
    say("training_embedding: Wide&Deep")
    ids = torch.randint(0, VOCABULARY, (BATCH, FIELDS), generator=torch.Generator().manual_seed(0))
    deep = Table.of(torch.randn(VOCABULARY, DEEP), LazyAdam(3.5e-4))
    wide = Table.of(torch.randn(VOCABULARY, 1), SparseFTRL(0.05, 0.0, 1e-8, 1e-8, 1.0))
    buffers = [torch.zeros(BATCH, FIELDS, table.weight.shape[1]) for table in (deep, wide)]
    gradients = [torch.randn(buffer.shape) for buffer in buffers]
    ascending, copied = ids.reshape(-1).sort().values.view(ids.shape), torch.zeros(BATCH, FIELDS, DEEP)
    found = unique(ids)
    spreads = _timed(
        {
            "lookup_deep_ascending": lambda: lookup(deep.weight, ascending, buffers[0]),
            "copy_deep": lambda: buffers[0].copy_(copied),
            "lookup_deep": lambda: lookup(deep.weight, ids, buffers[0]),
            "lookup_wide": lambda: lookup(wide.weight, ids, buffers[1]),
            "lookup_deep_fresh": lambda: lookup(deep.weight, ids),
            "distinct": lambda: unique(ids),
            "update_deep": lambda: deep.update_looked_up_(gradients[0], found, 2, 3.5e-4),
            "update_wide": lambda: wide.update_looked_up_(gradients[1], found, 2, 0.05),
        }
    )
    updates = spreads["update_deep"].median + spreads["update_wide"].median + spreads["distinct"].median
    lookups = spreads["lookup_deep"].median + spreads["lookup_wide"].median
    return {
        "distinct_ids": len(found.ids),
        "seconds": spreads,
        "reference_seconds": REFERENCE,
        "updates_with_distinct_seconds": round(updates, 5),
        "lookups_seconds": round(lookups, 5),
        "reached": updates < REFERENCE["update_deep"] + REFERENCE["update_wide"]
        and lookups < REFERENCE["lookup_deep"] + REFERENCE["lookup_wide"],
    }


def _bags() -> dict[str, Spread]:
    say("training_embedding: bags of 30")
    ids = torch.randint(0, VOCABULARY, (BATCH, 30), generator=torch.Generator().manual_seed(0))
    table = Table.of(torch.randn(VOCABULARY, 16), SparseAdagrad())
    bags, found = Bags.of(ids), unique(ids)
    buffer, gradient = torch.zeros(BATCH, 16), torch.randn(BATCH, 16)
    return _timed(
        {
            "lookup": lambda: lookup_bags(table.weight, bags, buffer),
            "pytorch_lookup": lambda: torch.nn.functional.embedding_bag(ids, table.weight, mode="sum"),
            "update": lambda: table.update_bags_(gradient, bags, found, 2, 0.01),
        }
    )


def _batches(rows: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, rows, (IDS,), generator=generator) for _ in range(50)]


def _sparse(rows: int, rule: RowOptimizer) -> dict[int, dict[str, Spread]]:
    """By rows: new ids in every step, all pages of table and state in memory."""
    say(f"training_embedding: {type(rule).__name__} over {rows:,} rows")
    table = Table.of(torch.full((rows, WIDTH), 0.5), rule)
    for state in table.state.values():
        state.fill_(0.1)
    return {rows: _stepped(table)}


def _stepped(table: Table, only: tuple[str, ...] = ("step", "pytorch")) -> dict[str, Spread]:
    """A step, and PyTorch's reading and adding of as many rows of all that it touches; pages have been touched before.

    They take turns, each with ids of its own.
    """
    batches, number, rule = _batches(len(table.weight)), count(), table.optimizer
    buffer, gradient = torch.zeros(IDS, WIDTH), torch.randn(IDS, WIDTH)
    nothing = torch.zeros(IDS, WIDTH)

    def step() -> None:
        ids = batches[next(number) % len(batches)]
        lookup(table.weight, ids, buffer)
        table.update_looked_up_(gradient, unique(ids), 2, rule.lr)

    def pytorch() -> None:
        ids = batches[(next(number) + len(batches) // 2) % len(batches)]
        for tensor in (table.weight, *table.state.values()):
            torch.index_select(tensor, 0, ids, out=buffer)
            tensor.index_add_(0, ids, nothing)

    for _ in batches:
        step()
    rivals = {"step": step, "pytorch": pytorch}
    return _timed({name: rivals[name] for name in only}, 200)


def _mapped(rows: int, folder: Path) -> Spread:
    say(f"training_embedding: LazyAdam over {rows:,} rows in files")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        table = mapped_table(Path(scratch) / "table", (rows, WIDTH), LazyAdam(), std=0.0, seed=0)
        return _stepped(table, ("step",))["step"]


def _criteo(batch: int = 2048, width: int = 16) -> dict[str, Any]:
    say("training_embedding: Criteo")
    data = Clicks(KAGGLE_CARDINALITIES, batch, batches=20, dense=0)
    batches = [ids for ids, _, _ in data]
    starts = torch.tensor([0, *KAGGLE_CARDINALITIES]).cumsum(0)
    whole = Table.of(torch.zeros(int(starts[-1]), width), SparseSGD(0.1))
    several = [
        Table.of(whole.weight[first:last], whole.optimizer)
        for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    buffer, gradient, number = torch.zeros(batch, 26, width), torch.randn(batch, 26, width), count()

    def one() -> None:
        ids = batches[next(number) % len(batches)] + starts[:-1]
        lookup(whole.weight, ids, buffer)
        whole.update_looked_up_(gradient, unique(ids), 2, 0.1)

    def each() -> None:
        ids = batches[next(number) % len(batches)]
        for column, table in enumerate(several):
            buffer[:, column] = lookup(table.weight, ids[:, column])
            table.update_looked_up_(gradient[:, column], unique(ids[:, column]), 2, 0.1)

    for _ in range(2 * len(batches)):
        one()
    return {"rows": int(starts[-1]), "batch": batch, "width": width, "seconds": _timed({"one": one, "each": each}, 60)}


def _dense(rows: int) -> Spread:
    say(f"training_embedding: dense Adam over {rows:,} rows")
    weight, rule = torch.full((rows, WIDTH), 0.5), Adam()
    state, batches, number = rule.init(weight), _batches(rows), count()
    gradient = torch.randn(IDS, WIDTH)

    def step() -> None:
        ids = batches[next(number) % len(batches)]
        torch.nn.functional.embedding(ids, weight)
        whole = torch.ops.aten.embedding_dense_backward(gradient, ids, rows, -1, False)
        rule.update_(weight, whole, state, 2, rule.lr)

    return _timed({"step": step}, 5)["step"]


if __name__ == "__main__":
    main()
