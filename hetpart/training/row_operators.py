# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""PyTorch operators of the tables of a training step: what is looked up, and what updates the rows that were.

``hetpart::lookup(table, ids, name)`` gives rows, ``hetpart::lookup_bags`` sums of them; both write into given memory
where there is some. ``hetpart::with_rows(progress, ids, …)`` gives ``progress`` to the updates once all ids of a batch
are rows, so that none is made before. ``hetpart::arranged`` sorts the ids of lookups, once for all tables.
Bags lie between bounds: bag b has the ids from ``bounds[b]`` to ``bounds[b + 1]``.
Where several parts of a batch make one update these take all of them together, as ``hetpart::collect_part`` kept them:
ids, gradients, bounds and weights have one more dimension, in front.
``hetpart::lazyadam(table, exp_avg, exp_avg_sq, gradients, …)`` returns the new content of a table and of its state,
and ``hetpart::lazyadam_`` writes the touched rows where the old ones lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hetpart.errors import InvalidFeedError
from hetpart.training import optimizers
from hetpart.training.embedding import Bags, Unique, gradient_blocks, lookup, lookup_bags
from hetpart.training.given_ids import require_rows, with_rows, with_rows_like
from hetpart.training.operators import NAMESPACE, one_number, record_of, square_of, told

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from hetpart.training.optimizers import RowOptimizer

ROWWISE = ("LazyAdam", "SparseAdagrad", "SparseFTRL", "SparseSGD")
NO_PADDING = -1
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_BAGS = "Tensor table, Tensor ids, Tensor bounds, Tensor? weights, int padding, str name"
_TOUCHED = "Tensor[] gradients, Tensor?[] bounds, Tensor?[] weights, Tensor ids, Tensor order"


def row_update_of(optimizer: RowOptimizer) -> OpOverload:
    """The operator that makes the updates of ``optimizer``."""
    return getattr(getattr(torch.ops, NAMESPACE), type(optimizer).__name__.lower()).default


def _lookup_into(table: Tensor, ids: Tensor, name: str, *, out: Tensor) -> Tensor:
    try:
        return lookup(table, ids, out)
    except IndexError:  # PyTorch looks at every id as it goes: to look at all of them before takes a fiftieth longer
        require_rows(len(table), ids, name)
        raise


def _lookup(table: Tensor, ids: Tensor, name: str) -> Tensor:
    return _lookup_into(table, ids, name, out=_looked_up(table, ids, name))


def _looked_up(table: Tensor, ids: Tensor, name: str) -> Tensor:
    del name
    return table.new_empty((*ids.shape, table.shape[1]))


def _bags(ids: Tensor, bounds: Tensor, weights: Tensor | None, padding: int) -> Bags:
    """The bags without what is padding."""
    if int(bounds[-1]) != ids.numel() or int(bounds[0]):
        raise InvalidFeedError(
            f"bags go from {int(bounds[0])} to {int(bounds[-1])}, and there are {ids.numel()} ids",
            hint="offsets begin with 0; the last one, where it is included, is the number of ids",
        )
    if bool((bounds.diff() < 0).any()):
        raise InvalidFeedError(f"offsets of bags go back: {bounds.tolist()[:9]} …", hint="each is from the last one on")
    if padding == NO_PADDING:
        return Bags(ids, bounds[:-1], weights)
    kept = ids != padding
    return Bags(ids[kept], _without_padding(ids, bounds, padding)[:-1], None if weights is None else weights[kept])


def _without_padding(ids: Tensor, bounds: Tensor, padding: int) -> Tensor:
    """Where bags lie once what is padding is gone."""
    if padding == NO_PADDING:
        return bounds
    return torch.nn.functional.pad((ids != padding).cumsum(0), (1, 0))[bounds]


def _lengths(ids: Tensor, bounds: Tensor, padding: int) -> Tensor:
    """int64 [B]: how many ids a bag has."""
    return _without_padding(ids, bounds, padding).diff()


def _lengths_like(ids: Tensor, bounds: Tensor, padding: int) -> Tensor:
    del ids, padding
    return bounds.new_empty(len(bounds) - 1)


def _lookup_bags_into(  # noqa: PLR0913 - an operator's schema
    table: Tensor, ids: Tensor, bounds: Tensor, weights: Tensor | None, padding: int, name: str, *, out: Tensor
) -> Tensor:
    require_rows(len(table), ids, name)
    factors = None if weights is None else weights.to(table.dtype)
    return lookup_bags(table, _bags(ids, bounds, factors, padding), out)


def _lookup_bags(table: Tensor, ids: Tensor, bounds: Tensor, *rest: Any) -> Tensor:
    return _lookup_bags_into(table, ids, bounds, *rest, out=_summed(table, ids, bounds))


def _summed(table: Tensor, ids: Tensor, bounds: Tensor, *rest: Any) -> Tensor:
    del ids, rest
    return table.new_empty((len(bounds) - 1, table.shape[1]))


def _arranged_into(ids: list[Tensor], paddings: list[int], *, out0: Tensor, out1: Tensor) -> tuple[Tensor, Tensor]:
    """The ids of some lookups, sorted, and where each was: its place in the lookups, laid end to end.

    What is padding of its lookup becomes ``NO_PADDING``, which is no row.
    """
    flat = [_marked(some.reshape(-1).long(), padding) for some, padding in zip(ids, paddings, strict=True)]
    return torch.sort(flat[0] if len(flat) == 1 else torch.cat(flat), stable=True, out=(out0, out1))


def _marked(ids: Tensor, padding: int) -> Tensor:
    return ids if padding == NO_PADDING else ids.masked_fill(ids == padding, NO_PADDING)


def _arranged(ids: list[Tensor], paddings: list[int]) -> tuple[Tensor, Tensor]:
    into = _arranged_like(ids, paddings)
    return _arranged_into(ids, paddings, out0=into[0], out1=into[1])


def _arranged_like(ids: list[Tensor], paddings: list[int]) -> tuple[Tensor, Tensor]:
    del paddings
    count = sum(some.numel() for some in ids)
    return ids[0].new_empty(count, dtype=torch.int64), ids[0].new_empty(count, dtype=torch.int64)


def _joined(bounds: Tensor) -> Tensor:
    """Bounds of the bags of several parts, [parts, B + 1], whose ids lie end to end: [parts · B + 1]."""
    ends = bounds[:, -1].cumsum(0)
    starts = bounds[:, :-1] + (ends - bounds[:, -1]).unsqueeze(-1)
    return torch.cat((starts.reshape(-1), ends[-1:]))


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """The gradient of what was looked up: of rows, or of bags of weighted rows."""

    gradient: Tensor
    bounds: Tensor | None
    weights: Tensor | None

    @property
    def rows(self) -> int:
        return self.gradient.numel() // max(1, self.gradient.shape[-1])

    @classmethod
    def of(cls, gradient: Tensor, bounds: Tensor | None, weights: Tensor | None) -> _Lookup:
        """Of one part of a batch, or of several."""
        if bounds is not None and bounds.dim() > 1:
            bounds = _joined(bounds)
        return cls(gradient, bounds, None if weights is None else weights.reshape(-1))

    @property
    def ids(self) -> int:
        return self.rows if self.bounds is None else int(self.bounds[-1])

    def owners(self, start: int) -> Tensor:
        """For every id, which row of the gradient is its own, counted from ``start``."""
        if self.bounds is None:
            return torch.arange(start, start + self.rows, device=self.gradient.device)
        return torch.repeat_interleave(self.bounds.diff(), output_size=self.ids) + start

    def factors(self) -> Tensor:
        return self.gradient.new_ones(self.ids) if self.weights is None else self.weights.to(self.gradient.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """The gradients of some lookups of one table, laid end to end, and whose each id's is."""

    gradient: Tensor
    """[rows, d]."""
    owners: Tensor | None
    weights: Tensor | None

    @classmethod
    def of(
        cls, gradients: Sequence[Tensor], bounds: Sequence[Tensor | None], weights: Sequence[Tensor | None]
    ) -> Touched:
        """A lookup's bounds are ``None`` where it has no bags, its weights where there are none."""
        lookups = [_Lookup.of(*parts) for parts in zip(gradients, bounds, weights, strict=True)]
        slopes = [lookup.gradient.reshape(lookup.rows, lookup.gradient.shape[-1]) for lookup in lookups]
        starts = accumulate((lookup.rows for lookup in lookups), initial=0)
        plain = all(bound is None for bound in bounds)
        even = all(weight is None for weight in weights)
        return cls(
            slopes[0] if len(slopes) == 1 else torch.cat(slopes),
            None if plain else torch.cat([part.owners(start) for part, start in zip(lookups, starts, strict=False)]),
            None if even else torch.cat([lookup.factors() for lookup in lookups]),
        )

    def blocks(self, ids: Tensor, order: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """(rows, their gradient), some at a time; ``ids`` and ``order`` are those of ``hetpart::arranged``."""
        return gradient_blocks(self.gradient, Unique.of_sorted(ids, order).of_rows(), self.owners, self.weights)


def _in_place(names: tuple[str, ...]) -> Callable[..., None]:
    count = len(names)

    def update(table: Tensor, *rest: Any) -> None:
        state = dict(zip(names, rest, strict=False))
        gradients, bounds, weights, ids, order, progress, scale, text = rest[count:]
        said = told(progress, scale)
        if said is None:
            return
        record: Any = record_of(text)
        rate = record.lr * said.rate
        for rows, slopes in Touched.of(gradients, bounds, weights).blocks(ids, order):
            record.update_rows_(table, rows, slopes, state, said.number, rate, said.factor)

    return update


def _functional(count: int, update: Callable[..., None]) -> Callable[..., Any]:
    def updated(*given: Any) -> Any:
        made = [tensor.clone() for tensor in given[: 1 + count]]
        update(*made, *given[1 + count :])
        return tuple(made) if count else made[0]

    return updated


def _described(count: int) -> Callable[..., Any]:
    def described(*given: Any) -> Any:
        made = [torch.empty_like(tensor) for tensor in given[: 1 + count]]
        return tuple(made) if count else made[0]

    return described


def _square_norm(*given: Any) -> Tensor:
    """Of the gradient of a table, whose rows are sums: [1]."""
    gradients, bounds, weights, ids, order = given
    lookups = [_Lookup.of(*parts) for parts in zip(gradients, bounds, weights, strict=True)]
    if sum(lookup.ids for lookup in lookups) != ids.numel():  # parts of the first batch are yet to come
        return torch.zeros_like(one_number(gradients[0]))
    blocks = Touched.of(gradients, bounds, weights).blocks(ids, order)
    return sum((square_of(slopes) for _, slopes in blocks), torch.zeros_like(one_number(gradients[0])))


def _one_number(gradients: list[Tensor], *rest: Any) -> Tensor:
    del rest
    return one_number(gradients[0])


def _define(schema: str, kernel: Callable[..., Any], fake: Callable[..., Any] | None = None) -> None:
    _LIBRARY.define(schema)
    name = schema.partition("(")[0]
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    if fake is not None:
        _LIBRARY.impl(name, fake, "Meta")


def _define_update(name: str) -> None:
    names: tuple[str, ...] = getattr(optimizers, name).state_names
    rest = f"{_TOUCHED}, Tensor progress, Tensor? scale, str record"
    states, written = "".join(f"Tensor {s}, " for s in names), "".join(f"Tensor({s}!) {s}, " for s in names)
    results = f"({', '.join(['Tensor'] * (1 + len(names)))})" if names else "Tensor"
    op, count, update = name.lower(), len(names), _in_place(names)
    _define(f"{op}(Tensor table, {states}{rest}) -> {results}", _functional(count, update), _described(count))
    _define(f"{op}_(Tensor(table!) table, {written}{rest}) -> ()", update)


def _register() -> None:
    _define("with_rows(Tensor progress, Tensor[] ids, int[] rows, str names) -> Tensor", with_rows, with_rows_like)
    _define("lookup(Tensor table, Tensor ids, str name) -> Tensor", _lookup, _looked_up)
    _define("lookup.out(Tensor table, Tensor ids, str name, *, Tensor(a!) out) -> Tensor(a!)", _lookup_into)
    _define(f"lookup_bags({_BAGS}) -> Tensor", _lookup_bags, _summed)
    _define(f"lookup_bags.out({_BAGS}, *, Tensor(a!) out) -> Tensor(a!)", _lookup_bags_into)
    _define("lengths(Tensor ids, Tensor bounds, int padding) -> Tensor", _lengths, _lengths_like)
    _define("arranged(Tensor[] ids, int[] paddings) -> (Tensor, Tensor)", _arranged, _arranged_like)
    _define(
        "arranged.out(Tensor[] ids, int[] paddings, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))",
        _arranged_into,
    )
    _define(f"rows_square_norm({_TOUCHED}) -> Tensor", _square_norm, _one_number)
    for name in ROWWISE:
        _define_update(name)


_register()
