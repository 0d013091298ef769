# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Lookups in the tables of a step: what they give is what gradients are taken of, so that none is of a whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import Interpreter

from hetpart.errors import InvalidModelError
from hetpart.training.factored import laid_in_rows
from hetpart.training.in_full import computed_in_full
from hetpart.training.row_operators import NO_PADDING

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

_aten, _own = torch.ops.aten, torch.ops.hetpart
_BAGS = (_aten.embedding_bag.padding_idx, _aten.embedding_bag.default, _aten._embedding_bag.default)
_LOOKUPS = frozenset({_aten.embedding.default, *_BAGS})
_CAPPING = (_aten.embedding_renorm.default, _aten.embedding_renorm_.default)
_WHOLE = "give it an optimizer of whole parameters, such as SGD, Adagrad or AdamW"
_UNCAPPED = "leave max_norm out: no step writes to a parameter but to update it"
_SUM, _MEAN = 0, 1
"""Modes of bags, as PyTorch numbers them."""
_SPARSE, _SPARSE_OF_BAGS = 4, 5
"""Where lookups are told whether gradients are to be sparse."""
LOOKUP_PARTS = 4
"""Results of a graph for every lookup."""


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Where a step reads rows of a table: tensors while it is traced, and nodes of the graph then."""

    table: str
    """The model's name of it."""
    padding: int
    """The row that has no gradient."""
    ids: Any
    leaf: Any
    """What was looked up; of the graph, its gradient."""
    bounds: Any = None
    """Of bags, as ``row_operators`` has them."""
    weights: Any = None

    def parts(self, gradient: Any) -> list[Any]:
        """What a graph returns of it."""
        return [self.ids, gradient, self.bounds, self.weights]

    def named_parts(self) -> list[tuple[str, Any]]:
        """The same with what each is called."""
        return list(zip(("ids", "gradient", "bounds", "weights"), self.parts(self.leaf), strict=True))

    def of(self, nodes: Sequence[Any]) -> Lookup:
        """The same of a graph that returned ``nodes`` for its parts."""
        return Lookup(self.table, self.padding, *nodes)


def require_lookups(program: ExportedProgram, tables: Mapping[str, str]) -> None:
    """See that nothing but lookups reads tables; ``tables`` are their names by argument of ``program``.

    Raises:
        InvalidModelError: something does, or a lookup is of a kind that has no gradient of rows here.
    """
    for node in program.graph.find_nodes(op="placeholder"):
        for user in node.users if node.name in tables else ():
            why = _refusal(node, user)
            if why is not None:
                raise InvalidModelError(
                    f"{tables[node.name]!r} is updated by rows, and {user.name} {why}",
                    hint=_UNCAPPED if _is_capped(node) else _WHOLE,
                )


def _is_capped(table: Node) -> bool:
    """Whether rows of ``table`` are written to as they are looked up, for their ``max_norm``."""
    readers = [reader for user in table.users for reader in (user, *user.users)]
    return any(reader.target in _CAPPING for reader in readers)


def _refusal(table: Node, user: Node) -> str | None:
    """Why ``user`` is no lookup in ``table``."""
    if _is_capped(table):
        return "is of a lookup with max_norm, which writes to its rows"
    if user.target not in _LOOKUPS or user.args[0] is not table or table in user.args[1:]:
        return f"reads it otherwise than to look up rows ({user.target}), as a tied output layer does"
    is_bag = user.target in _BAGS
    given: dict[Any, Any] = {**dict(enumerate(user.args)), **user.kwargs}
    if given.get("scale_grad_by_freq", given.get(3, False)):
        return "scales gradients by how often an id comes"
    if is_bag and given.get("mode", given.get(4, 0)) not in (_SUM, _MEAN):
        return "takes the largest of its rows"
    return None


class LookingUp(Interpreter):
    """Runs a graph whose lookups in tables are operators of hetpart's, and what they give begins anew."""

    def __init__(self, module: GraphModule, tables: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self._tables = {id(table): name for name, table in tables.items()}
        self.found: list[Lookup] = []

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = self._tables.get(id(args[0])) if target in _LOOKUPS else None
        if name is None:
            args, kwargs = laid_in_rows(target, *_whole(target, args, kwargs))
            made = computed_in_full(target, args, kwargs)
            return super().call_function(target, args, kwargs) if made is None else made
        look: Callable[..., Any] = self._bags if target in _BAGS else self._rows
        return look(name, *args, **kwargs)

    def _rows(self, name: str, table: Tensor, ids: Tensor, padding_idx: int = NO_PADDING, *_: Any, **__: Any) -> Tensor:
        return self._leaf(Lookup(name, padding_idx, ids, _own.lookup(table, ids, name)))

    def _bags(  # noqa: PLR0913 - as PyTorch has it
        self,
        name: str,
        table: Tensor,
        indices: Tensor,
        offsets: Tensor,
        scale_grad_by_freq: bool = False,
        mode: int = _SUM,
        sparse: bool = False,
        per_sample_weights: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> tuple[Any, ...]:
        del scale_grad_by_freq, sparse
        padding = NO_PADDING if padding_idx is None else padding_idx % len(table)
        ids, bounds = indices.reshape(-1), offsets.to(torch.int64)
        if not include_last_offset:
            bounds = torch.cat((bounds, bounds.new_full((1,), ids.numel())))
        if per_sample_weights is not None and per_sample_weights.requires_grad:
            return self._weighted(Lookup(name, padding, ids, _own.lookup(table, ids, name)), bounds, per_sample_weights)
        looked_up = _own.lookup_bags(table, ids, bounds, per_sample_weights, padding, name)
        made = self._leaf(Lookup(name, padding, ids, looked_up, bounds, per_sample_weights))
        if mode == _MEAN:
            made = made / _own.lengths(ids, bounds, padding).clamp(min=1).to(made.dtype).unsqueeze(-1)
        return made, None, None, None

    def _weighted(self, lookup: Lookup, bounds: Tensor, weights: Tensor) -> tuple[Any, ...]:
        """Sums of rows times weights that have gradients too."""
        rows = self._leaf(lookup)
        counted = weights * (lookup.ids != lookup.padding).to(weights.dtype)
        count = len(bounds) - 1
        owners = torch.repeat_interleave(bounds.diff(), output_size=len(weights))
        sums = rows.new_zeros((count, rows.shape[1])).index_add(0, owners, rows * counted.unsqueeze(-1))
        return sums, None, None, None

    def _leaf(self, lookup: Lookup) -> Tensor:
        leaf = lookup.leaf.detach().requires_grad_()
        self.found.append(Lookup(lookup.table, lookup.padding, lookup.ids, leaf, lookup.bounds, lookup.weights))
        return leaf


def _whole(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call, which asks for no sparse gradient: optimizers of whole parameters take whole ones."""
    if target not in _LOOKUPS:
        return args, kwargs
    place = _SPARSE_OF_BAGS if target in _BAGS else _SPARSE
    if len(args) > place:
        return (*args[:place], False, *args[place + 1 :]), kwargs
    return args, {**kwargs, "sparse": False}
