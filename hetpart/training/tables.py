# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The nodes of a step that update the rows of its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hetpart.errors import InvalidOptionError
from hetpart.training.embedding import beside, file_of, mapped
from hetpart.training.norms import collected_part
from hetpart.training.operators import NUMBER, record_text
from hetpart.training.optimizers import Assignment, RowOptimizer
from hetpart.training.optimizers.groups import Target
from hetpart.training.row_operators import row_update_of
from hetpart.training.updates import UPDATE_OP, Common, StateName

if TYPE_CHECKING:
    from torch.fx import Node

    from hetpart.training.capture import Input
    from hetpart.training.gradients import Gradients
    from hetpart.training.lookups import Lookup
    from hetpart.training.writer import Writer

CHECK, CHECK_OP = "check/ids", "hetpart.with_rows.default"
"""What the op is called that sees whether ids are rows, and its type."""
LOOKUP_OPS = frozenset({"hetpart.lookup.default", "hetpart.lookup_bags.default"})
_LOOKUPS = (torch.ops.hetpart.lookup.default, torch.ops.hetpart.lookup_bags.default)


def lookup_name(table: str, number: int) -> str:
    """What the op is called that is the lookup ``number``, from 0, in a table."""
    return f"lookup/{table}/{number}" if number else f"lookup/{table}"


def tables_of(assigned: Mapping[str, Assignment]) -> frozenset[str]:
    """The parameters whose optimizer is one of rows."""
    return frozenset(name for name, found in assigned.items() if isinstance(found.optimizer, RowOptimizer))


def files_on_host(parameters: Mapping[str, torch.Tensor], targets: Mapping[str, str]) -> dict[str, Target]:
    """The targets of those of ``parameters`` that lie in files; ``targets`` are those that are asked for.

    Raises:
        InvalidOptionError: one is asked for on an accelerator, or lies in pieces, or two share a part of a file.
    """
    files = {name: file for name, part in parameters.items() if (file := file_of(part)) is not None}
    for name, file in files.items():
        if targets.get(name) == "cuda":
            raise InvalidOptionError(
                f"{name!r} lies in a file, {file}, and its group asks for an accelerator",
                hint="leave its target to auto, or give the model a table in memory",
            )
    _require_apart(parameters, files)
    return dict.fromkeys(files, "cpu")


def _require_apart(parameters: Mapping[str, torch.Tensor], files: Mapping[str, Path]) -> None:
    begins = {name: parameters[name].storage_offset() * parameters[name].itemsize for name in files}
    placed = sorted(files, key=lambda name: (files[name].resolve(), begins[name]))
    for one, other in pairwise(placed):
        same = files[one].resolve() == files[other].resolve()
        if same and begins[other] < begins[one] + parameters[one].nbytes:
            raise InvalidOptionError(
                f"{one!r} and {other!r} lie in one place, of {files[one]}: each would be updated beneath the other",
                hint="give each rows of its own; to be one table, they need to be one nn.Parameter",
            )


def table_contents(name: str, weight: torch.Tensor, optimizer: RowOptimizer) -> dict[str, torch.Tensor]:
    """A table and what its optimizer keeps before the first step, by name; what is left out is zeros, or in files."""
    found = {name: weight}
    for state in optimizer.state_names if file_of(weight) is None else ():
        if fill := optimizer.initial(state):
            found[_kept_name(name, state)] = torch.full((), fill, dtype=weight.dtype).expand(weight.shape)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class StateFile:
    """A file beside a table in one, for what its optimizer keeps of it."""

    name: str
    weight: torch.Tensor
    state: str
    fill: float

    @property
    def path(self) -> Path:
        return beside(self.weight, self.state)

    def begun(self) -> torch.Tensor:
        """The content before the first step. A file that is there ends; whoever runs on with it keeps what it has."""
        self.path.unlink(missing_ok=True)
        return mapped(self.path, tuple(self.weight.shape), self.weight.dtype, self.fill)


def state_files(contents: Mapping[str, torch.Tensor], optimizers: Mapping[str, Any]) -> list[StateFile]:
    """Those of the tables among ``contents``, by the optimizers that update them."""
    return [
        StateFile(_kept_name(name, state), contents[name], state, optimizer.initial(state))
        for name, optimizer in optimizers.items()
        if isinstance(optimizer, RowOptimizer) and name in contents and file_of(contents[name]) is not None
        for state in optimizer.state_names
    ]


def _kept_name(table: str, state: str) -> str:
    return f"optimizer/{state}/{table}"


def progress_with_rows(writer: Writer, lookups: Sequence[Lookup], sizes: Mapping[str, int], progress: Node) -> Node:
    """``progress`` as updates may have it: once every id of a batch is a row of its tables, ``sizes`` rows long.

    Ids of several tables are seen to once, for the shortest.
    """
    shortest: dict[Node, str] = {}
    for lookup in lookups:
        before = shortest.setdefault(lookup.ids, lookup.table)
        shortest[lookup.ids] = min(before, lookup.table, key=lambda name: sizes[name])
    names = list(shortest.values())
    arguments = (progress, list(shortest), [sizes[name] for name in names], json.dumps(names))
    return writer.call(torch.ops.hetpart.with_rows.default, arguments, progress.meta["val"])


class Tables:
    """The tables of a step: lookups of the same ids are sorted once, whichever tables they are in.

    Where several ``parts`` of a batch make one update, what they looked up is kept until then, and ids that several
    tables are looked up by once.
    """

    def __init__(self, writer: Writer, gradients: Gradients, parts: int, progress: Node) -> None:
        self._writer = writer
        self._parts, self._progress = parts, progress
        self._kept: dict[Any, tuple[StateName, Node]] = {}
        self._lookups: dict[str, list[Lookup]] = {}
        for lookup in gradients.lookups:
            self._lookups.setdefault(lookup.table, []).append(self._of_all_parts(lookup) if parts > 1 else lookup)
        self._arranged: dict[tuple[Any, Any], Sequence[Node]] = {}

    @property
    def states(self) -> list[tuple[StateName, Node]]:
        """What is kept of the parts of a batch, and the new content of each."""
        return list(self._kept.values())

    def _of_all_parts(self, lookup: Lookup) -> Lookup:
        return lookup.of([self._of_all(node, f"{lookup.table}/{what}") for what, node in lookup.named_parts()])

    def _of_all(self, node: Any, name: str) -> Any:
        if node is not None and node not in self._kept:
            own = f"{name}/{len(self._kept)}"
            self._kept[node] = collected_part(self._writer, own, node, self._parts, self._progress)
        return None if node is None else self._kept[node][1]

    def updated(self, part: Input, optimizer: RowOptimizer, common: Common) -> list[tuple[StateName, Node]]:
        """The states of a table, and the new content of each."""
        content, writer = part.node.meta["val"], self._writer
        given, kept = [part.node], [StateName(part.name, part.node.name)]
        for state in optimizer.state_names:
            given.append(writer.argument(f"{state}_{part.name}", content.shape, content.dtype))
            kept.append(StateName(f"optimizer/{state}/{part.name}", given[-1].name))
        arguments = (*given, *self._touched(part.name), common.progress, common.scale, record_text(optimizer))
        contents = tuple(node.meta["val"] for node in given)
        target = row_update_of(optimizer)
        update = writer.call(target, arguments, contents if len(given) > 1 else contents[0], part.name)
        return list(zip(kept, writer.results(update, part.name), strict=True))

    def together(self) -> list[list[str]]:
        """Names of the ops of every table: they run where it lies; ids are seen to where the first does."""
        calls = [
            node for target in _LOOKUPS for node in self._writer.graph.find_nodes(op="call_function", target=target)
        ]
        found = [(name, sum(node.args[-1] == name for node in calls)) for name in self._lookups]
        ops = [[f"{UPDATE_OP}{name}", *(lookup_name(name, k) for k in range(count))] for name, count in found]
        return [[*names, *([CHECK] if not place else [])] for place, names in enumerate(ops)]

    def square_norm(self, name: str) -> Node:
        """Of the gradient of a table, [1]."""
        content = self._writer.fake((1,), NUMBER)
        return self._writer.call(torch.ops.hetpart.rows_square_norm.default, self._touched(name), content, name)

    def _touched(self, name: str) -> tuple[Any, ...]:
        """What operators are told of the rows of a table that were looked up, and of their gradients."""
        lookups = self._lookups[name]
        bounds, weights = [lookup.bounds for lookup in lookups], [lookup.weights for lookup in lookups]
        gradients = [lookup.leaf for lookup in lookups]
        return gradients, bounds, weights, *self._order(lookups)

    def _order(self, lookups: Sequence[Lookup]) -> Sequence[Node]:
        ids, paddings = tuple(lookup.ids for lookup in lookups), tuple(lookup.padding for lookup in lookups)
        if (ids, paddings) not in self._arranged:
            with ids[0].meta["val"].fake_mode:
                content = tuple(torch.empty(sum(n.meta["val"].numel() for n in ids), dtype=torch.int64) for _ in "ab")
            node = self._writer.call(torch.ops.hetpart.arranged.default, (list(ids), list(paddings)), content)
            self._arranged[ids, paddings] = self._writer.results(node)
        return self._arranged[ids, paddings]
