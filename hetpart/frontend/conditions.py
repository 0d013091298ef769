# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportAttributeAccessIssue=false
"""Whether a call in a program is one that goes wrong: by its arguments, and what the trace knows of its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

aten = torch.ops.aten
Concerned = Callable[[Node], bool]
"""Whether a call is one of those that go wrong."""
INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
BFLOATS = frozenset({torch.bfloat16})
SINGLES = frozenset({torch.float32})
DOUBLES = frozenset({torch.float64})
_INT64 = frozenset({torch.int64})
NO_KERNEL = frozenset({torch.bfloat16, torch.float64})
"""What the processor's recurrent kernels do not compute in."""
MEAN_OF_BAGS = 1
_PHASES = frozenset({aten.angle.default, aten.atan2.default})


def always(node: Node) -> bool:
    """Whatever it is given."""
    del node
    return True


def given(name: str, *harmless: Any) -> Concerned:
    """Whether the argument ``name`` is another than ``harmless``, of which the first is its default."""
    return lambda node: argument_of(node, name, harmless[0]) not in harmless


def has(name: str, *harmful: Any) -> Concerned:
    """Whether the argument ``name`` is one of ``harmful``."""
    return lambda node: argument_of(node, name, None) in harmful


def argument_of(node: Node, name: str, default: Any) -> Any:
    """The argument ``name`` of a call, or ``default`` where it has none."""
    assert isinstance(node.target, OpOverload)
    place = [argument.name for argument in node.target._schema.arguments].index(name)
    given = node.args[place] if place < len(node.args) else node.kwargs.get(name, default)
    return tuple(given) if isinstance(given, list) else given


def makes(dtypes: frozenset[torch.dtype]) -> Concerned:
    """Whether the result, or the first of several, has one of ``dtypes``."""
    return lambda node: next(dtypes_of(node.meta.get("val")), None) in dtypes


def dtypes_of(value: Any) -> Iterator[torch.dtype]:
    """Those of the tensors in what the trace knows of a node."""
    listed = value if isinstance(value, list | tuple) else (value,)
    return (one.dtype for one in listed if isinstance(one, torch.Tensor))


def takes_complex(node: Node) -> bool:
    """Whether a tensor of complex numbers goes in."""
    return any(tensor.is_complex() for tensor in _tensors_to(node))


def widens(node: Node) -> bool:
    """Whether the result is of another type than the first argument."""
    first = node.args[0]
    known = first.meta.get("val") if isinstance(first, Node) else None
    return list(dtypes_of(known)) != list(dtypes_of(node.meta.get("val")))


def mixes(node: Node) -> bool:
    """Whether tensors of several floating types go in, as an autocast leaves them."""
    return len({tensor.dtype for tensor in _tensors_to(node)}) > 1


def _tensors_to(node: Node) -> Iterator[torch.Tensor]:
    values = (one.meta.get("val") for one in node.all_input_nodes)
    return (value for value in values if isinstance(value, torch.Tensor))


def uses_beyond_first(node: Node) -> bool:
    """Whether any of several results but the first is used."""
    return any(user.args[1] for user in node.users if user.target is getitem)


def finds_phases(node: Node) -> bool:
    """Whether phases are found where it is called, of which the sign of an imaginary part that is 0 decides."""
    return any(other.target in _PHASES for other in node.graph.nodes)


def by_vector(node: Node) -> bool:
    """Whether a matrix, or several, are multiplied by a vector."""
    first, second = (one.meta["val"].dim() if isinstance(one, Node) else 0 for one in node.args[:2])
    return first > 1 and second == 1


def lacks_one(*names: str) -> Concerned:
    """Whether one of the arguments ``names`` is missing."""
    return lambda node: any(argument_of(node, name, None) is None for name in names)


def mixes_bounds(node: Node) -> bool:
    """Whether of the least and the largest number one is whole and the other is not."""
    bounds = (argument_of(node, name, None) for name in ("min", "max"))
    known = [bound.meta.get("val") if isinstance(bound, Node) else bound for bound in bounds]
    return len({isinstance(bound, (float, torch.SymFloat)) for bound in known if bound is not None}) > 1


def _of_size(wrong: Callable[[torch.Tensor], bool]) -> Concerned:
    """Whether the first argument is a tensor that is ``wrong``, in the trace."""

    def concerned(node: Node) -> bool:
        first = node.args[0] if node.args else None
        value = first.meta.get("val") if isinstance(first, Node) else None
        return isinstance(value, torch.Tensor) and wrong(value)

    return concerned


def empties(node: Node) -> bool:
    """Whether a tensor without elements goes in."""
    return any(map(may_be_empty, _tensors_to(node)))


def asking() -> Any:
    """Within it a choice by size is that of the example, and is noted, also while PyTorch takes programs apart."""
    return symbolic_config.patch(backed_size_oblivious=False)


def may_be_empty(tensor: torch.Tensor) -> bool:
    """Whether it has no element; what nothing in the trace tells of a size may be so."""
    with asking():
        return any(guard_or_true(size == 0) for size in tensor.shape)


def _is_empty(tensor: torch.Tensor) -> bool:
    with asking():
        return any(guard_or_false(size == 0) for size in tensor.shape)


def adds_large(node: Node) -> bool:
    """Whether whole numbers are added up that need not be small, as truth values are."""
    is_known = _of_size(lambda tensor: tensor.dtype in _INT64 and tensor.dim() > 0 and not may_be_empty(tensor))
    return is_known(node) and not _of_truth(node)


def adds_unknown(node: Node) -> bool:
    """Whether data decide how many such numbers are added up."""
    is_unknown = _of_size(lambda tensor: tensor.dtype in _INT64 and may_be_empty(tensor) and not _is_empty(tensor))
    return is_unknown(node) and not _of_truth(node)


def _of_truth(node: Node) -> bool:
    maker: Any = node.args[0]
    is_cast = maker.target in (aten._to_copy.default, torch.ops.prims.convert_element_type.default)
    return is_cast and _made_of(maker.args[0]) is torch.bool


def _made_of(argument: Any) -> torch.dtype | None:
    return next(dtypes_of(argument.meta.get("val")), None) if isinstance(argument, Node) else None


def corrects_too_much(node: Node) -> bool:
    """Whether a variance is of no more elements than its correction takes off them, or may be."""
    value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    axes: Any = given_to(node, "dim") or range(value.dim())
    sizes: list[Any] = (
        [value.shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)] if value.dim() else []
    )
    known = [size for size in sizes if isinstance(size, int)]
    taken = given_to(node, "correction" if _has(node, "correction") else "unbiased")
    if isinstance(taken, Node):
        return True
    return len(known) == len(sizes) and math.prod(known) <= (1 if taken is None else taken)


def _has(node: Node, name: str) -> bool:
    assert isinstance(node.target, OpOverload)
    return any(argument.name == name for argument in node.target._schema.arguments)


def given_to(node: Node, name: str, default: Any = None) -> Any:
    """The argument ``name`` of a call; nothing where its operator has none of that name."""
    return argument_of(node, name, default) if _has(node, name) else None


def both(*conditions: Concerned) -> Concerned:
    """Whether all of ``conditions`` hold."""
    return lambda node: all(condition(node) for condition in conditions)


def either(*conditions: Concerned) -> Concerned:
    """Whether any of ``conditions`` holds."""
    return lambda node: any(condition(node) for condition in conditions)


def keeps_all(node: Node) -> bool:
    """Whether all axes are reduced, and stay."""
    return argument_of(node, "keepdim", False) and not argument_of(node, "dim", None)


def projects(node: Node) -> bool:
    """Whether the state that an LSTM returns is smaller than the one that it computes with."""
    states: Any = node.args[1]
    return len({state.meta["val"].shape[-1] for state in states}) > 1


def searches_open(node: Node) -> bool:
    """Whether as many numbers are searched as differ from call to call."""
    return isinstance(node.args[1], Node) and _is_open(node.args[1].meta["val"])


def opens(node: Node) -> bool:
    """Whether sizes of what goes in differ from call to call."""
    return any(map(_is_open, _tensors_to(node)))


def _is_open(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


steps_open = _of_size(_is_open)
empty = _of_size(may_be_empty)
single = _of_size(lambda tensor: tensor.dim() == 0)
