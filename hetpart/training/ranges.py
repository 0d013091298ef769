# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
"""What of a batch PyTorch refuses by its values: labels that are no class, ids that are no row, targets beyond 0 and 1.

ONNX counts indices below 0 from the end, and ONNX Runtime's kernels of a GPU check none: a step sees to them itself,
before anything is updated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import Node

from hetpart.errors import ExecutionError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_aten = torch.ops.aten
_VIEWS = frozenset(
    {
        _aten.view.default, _aten.reshape.default, _aten.flatten.using_ints, _aten.unsqueeze.default,
        _aten.squeeze.default, _aten.squeeze.dim, _aten.squeeze.dims, _aten.select.int, _aten.slice.Tensor,
        _aten.transpose.int, _aten.permute.default, _aten.t.default, _aten.expand.default, _aten.contiguous.default,
        _aten.clone.default, _aten.detach.default, _aten.alias.default, _aten.to.dtype, _aten.to.dtype_layout,
        _aten._to_copy.default,
    }
)  # fmt: skip
"""What gives the values of its first argument, or some of them."""
_COMPUTED = frozenset(
    {
        _aten.add.Tensor, _aten.add.Scalar, _aten.sub.Tensor, _aten.sub.Scalar, _aten.mul.Tensor, _aten.mul.Scalar,
        _aten.rsub.Scalar, _aten.neg.default, _aten.abs.default, _aten.remainder.Scalar, _aten.floor_divide.default,
        _aten.div.Tensor_mode, _aten.clamp.default, _aten.clamp_min.default, _aten.clamp_max.default,
    }
)  # fmt: skip
"""What computes others of it, with numbers alone beside it: ``labels - 1``."""


@dataclass(frozen=True, slots=True)
class _Check:
    """What an operator asks of one of its arguments."""

    argument: str
    what: str
    most: Callable[[Mapping[str, Any]], int | None]
    """The largest value, told by the operator's arguments; ``None`` where any may be."""


def _classes(given: Mapping[str, Any]) -> int | None:
    scores: Any = given["self"].meta["val"]
    if given["target"].meta["val"].is_floating_point():
        return None
    return scores.shape[1 if scores.dim() > 1 else 0] - 1


def _rows(given: Mapping[str, Any]) -> int:
    return len(given["weight"].meta["val"]) - 1


def _along(given: Mapping[str, Any]) -> int | None:
    source: Any = given["self"].meta["val"]
    return None if given["dim"] is None or not source.dim() else source.shape[given["dim"]] - 1


def _along_unless_wrapped(given: Mapping[str, Any]) -> int | None:
    return None if _wraps() else _along(given)


@cache
def _wraps() -> bool:
    """Whether ``take_along_dim`` takes any index, as PyTorch's does of late: a trace of it wraps them, too."""
    try:
        torch.take_along_dim(torch.zeros(2), torch.tensor([-3]), 0)
    except (IndexError, RuntimeError):
        return False
    return True


def _one_hot(given: Mapping[str, Any]) -> int | None:
    return given["num_classes"] - 1 if given["num_classes"] > 0 else None


def _unit(given: Mapping[str, Any]) -> int:
    del given
    return 1


_INDEXED = (
    _aten.gather.default, _aten.index_select.default,
    *(
        getattr(getattr(_aten, name + written), overload)
        for name, overloads in (
            ("index_add", ("default",)), ("index_copy", ("default",)), ("index_reduce", ("default",)),
            ("scatter", ("src", "value", "reduce", "value_reduce")), ("scatter_add", ("default",)),
            ("scatter_reduce", ("two",)),
        )
        for overload in overloads
        for written in ("", "_")
    ),
)  # fmt: skip
"""What reads or writes along a dimension by an argument that is called so."""
_LABELS, _IDS = _Check("target", "labels", _classes), _Check("indices", "ids", _rows)
_SHARES = _Check("target", "targets", _unit)
_CHECKS: Mapping[Any, _Check] = {
    _aten.cross_entropy_loss.default: _LABELS,
    _aten.nll_loss.default: _LABELS,
    _aten.nll_loss_nd.default: _LABELS,
    _aten.nll_loss2d.default: _LABELS,
    _aten.multi_margin_loss.default: _LABELS,
    _aten.embedding.default: _IDS,
    _aten.embedding_bag.default: _IDS,
    _aten.embedding_bag.padding_idx: _IDS,
    _aten.take_along_dim.default: _Check("indices", "indices", _along_unless_wrapped),
    **dict.fromkeys(_INDEXED, _Check("index", "indices", _along)),
    _aten.one_hot.default: _Check("self", "labels", _one_hot),
    _aten.binary_cross_entropy.default: _SHARES,
}
_FEW = 512
"""Integers that are looked at in Python: NumPy and PyTorch take tens of microseconds for the first, after a step."""
_HINTS = {
    "labels": "classes are counted from 0; a label to leave out is ignore_index, -100 by default",
    "ids": "rows are counted from 0: hash or clip the ids, or make the table longer",
    "indices": "they are counted from 0",
    "targets": "scale them, or see what the batch holds",
}


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Between what values an operator takes a part of a batch."""

    place: int
    """Of the part in the batch."""
    views: Sequence[Callable[[Tensor], Tensor]]
    """What of the part the operator is given, one after the other."""
    what: str
    operator: str
    most: int
    ignored: int | None = None
    is_computed: bool = False
    """Whether the loss computes others of it first."""

    def require(self, part: Any) -> None:
        """See that ``part`` of a batch has such values.

        Raises:
            ExecutionError: it has another.
        """
        values = part if isinstance(part, Tensor) else torch.as_tensor(part)
        values = values.detach() if values.requires_grad else values
        for view in self.views:
            values = view(values)
        if self._holds(values):
            return
        kept = values if self.ignored is None else values[values != self.ignored]
        if not self._holds(kept):
            least, most = _bounds(kept)
            raise ExecutionError(
                f"{self.what} of {self.operator} go from {least} to {most}"
                f"{', as the loss computes them,' if self.is_computed else ''} in part {self.place} of the batch, "
                f"where 0 to {self.most} are possible",
                hint=f"{_HINTS[self.what]}; nothing was updated",
            )

    def _holds(self, values: Tensor) -> bool:
        if not values.numel():
            return True
        least, most = _bounds(values)
        return least >= 0 and most <= self.most


def _bounds(values: Tensor) -> tuple[float, float]:
    """The least and the largest of some values, or NaN where one is.

    By the thread that asks: PyTorch has several, whose cores may be taken (624,000 ids took 7.7 ms instead of 0.4).
    """
    if values.numel() <= _FEW and not values.is_floating_point():
        numbers = (values if values.dim() == 1 else values.flatten()).tolist()
        return min(numbers), max(numbers)
    if values.is_cpu and values.dtype != torch.bfloat16:
        array = values.numpy()
        return array.min().item(), array.max().item()
    least, most = values.aminmax()
    return least.item(), most.item()


def ranges_of(program: ExportedProgram, batch: Sequence[str], tables: AbstractSet[str] = frozenset()) -> list[Range]:
    """The ranges of what ``program`` reads of its arguments ``batch``, as they are or by views.

    ``tables`` are arguments whose lookups see to their ids themselves.
    """
    changed = {_lies_in(node.args[0]) for node in program.graph.nodes if _changes(node)}
    found: list[Range] = []
    for node in program.graph.nodes:
        check = _CHECKS.get(node.target)
        given = _arguments(node) if check is not None else {}
        if check is None or getattr(given.get("weight"), "name", None) in tables:
            continue
        source, views = _source(given[check.argument])
        computed = [view for view in _views(given[check.argument]) if view.target in _COMPUTED]
        most = check.most(given)
        if most is not None and changed.isdisjoint([source, *computed]) and getattr(source, "name", None) in batch:
            place, name = batch.index(source.name), node.target._schema.name.removeprefix("aten::")
            found.append(Range(place, views, check.what, name, int(most), given.get("ignore_index"), bool(computed)))
    return found


def _changes(node: Node) -> bool:
    """Whether it writes into what it is given."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable and bool(node.args)


def _arguments(node: Any) -> dict[str, Any]:
    """By the names that the operator has for them."""
    asked = node.target._schema.arguments
    defaults = {one.name: one.default_value for one in asked if one.has_default_value()}
    return {**defaults, **{one.name: value for one, value in zip(asked, node.args, strict=False)}, **node.kwargs}


def _source(node: Any) -> tuple[Any, list[Callable[[Tensor], Tensor]]]:
    """What ``node`` is a view of, and the views, the first first."""
    views = [*_views(node)]
    source = views[-1].args[0] if views else node
    return source, [_call(view) for view in reversed(views)]


def _views(node: Any) -> Iterator[Any]:
    while (target := getattr(node, "target", None)) in _VIEWS or (target in _COMPUTED and _is_of_numbers(node)):
        yield node
        node = node.args[0]


def _is_of_numbers(node: Node) -> bool:
    """Whether numbers alone go with its first argument."""
    first, *others = node.args
    return isinstance(first, Node) and not any(isinstance(one, Node) for one in (*others, *node.kwargs.values()))


def _lies_in(node: Any) -> Any:
    """Whose memory ``node`` may be: what is computed has its own."""
    while getattr(node, "target", None) in _VIEWS:
        node = node.args[0]
    return node


def _call(view: Any) -> Callable[[Tensor], Tensor]:
    target, rest, options = view.target, view.args[1:], dict(view.kwargs)
    return lambda value: target(value, *rest, **options)
