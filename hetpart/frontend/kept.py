# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Calls of operators that the exporter translates to something else, or to what ONNX Runtime computes otherwise.

Each was found by comparing plans with eager PyTorch (``benchmarks/torch_ops.py``). An operator that PyTorch itself
takes apart goes in its parts; a call of another one stays PyTorch's, as what has no translation does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

aten = torch.ops.aten
Concerned = Callable[[Node], bool]
"""Whether a call is one of those that go wrong."""
_INTEGERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
_MEAN_OF_BAGS = 1


def _always(node: Node) -> bool:
    del node
    return True


def _given(name: str, *harmless: Any) -> Concerned:
    """Whether the argument ``name`` is another than ``harmless``, of which the first is its default."""
    return lambda node: _argument(node, name, harmless[0]) not in harmless


def _is(name: str, *harmful: Any) -> Concerned:
    return lambda node: _argument(node, name, None) in harmful


def _argument(node: Node, name: str, default: Any) -> Any:
    assert isinstance(node.target, OpOverload)
    places = [argument.name for argument in node.target._schema.arguments]
    place = places.index(name)
    given = node.args[place] if place < len(node.args) else node.kwargs.get(name, default)
    return tuple(given) if isinstance(given, list) else given


def _makes(dtypes: frozenset[torch.dtype]) -> Concerned:
    """Whether the result, or the first of several, has one of ``dtypes``."""
    return lambda node: next(_dtypes(node.meta.get("val")), None) in dtypes


def _dtypes(value: Any) -> Iterator[torch.dtype]:
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, torch.Tensor):
            yield one.dtype


def _mixes(node: Node) -> bool:
    """Whether tensors of several floating types go in, as an autocast leaves them."""
    values = [one.meta.get("val") for one in node.all_input_nodes]
    return len({value.dtype for value in values if isinstance(value, torch.Tensor)}) > 1


def _lacks_one(*names: str) -> Concerned:
    """Whether one of the arguments ``names`` is missing."""
    return lambda node: any(_argument(node, name, None) is None for name in names)


def _of_size(wrong: Callable[[torch.Tensor], bool]) -> Concerned:
    """Whether the first argument is a tensor that is ``wrong``, in the trace."""

    def concerned(node: Node) -> bool:
        first = node.args[0] if node.args else None
        value = first.meta.get("val") if isinstance(first, Node) else None
        return isinstance(value, torch.Tensor) and wrong(value)

    return concerned


_empty = _of_size(lambda tensor: 0 in tensor.shape)
_single = _of_size(lambda tensor: tensor.dim() == 0)

DIVIDED: Mapping[OpOverload, Concerned] = {
    # A mean over N examples: the second result is a constant 1, and the gradient N times too large.
    aten.nll_loss_forward.default: _always,
    # The running means are taken whether it trains or not.
    aten._native_batch_norm_legit_functional.default: _always,
    aten._native_batch_norm_legit.default: _always,
    aten.native_batch_norm.default: _always,
    # The label smoothing is left out, and examples without a batch are refused.
    aten.cross_entropy_loss.default: _always,
    # The logarithm of a sigmoid, which is 0 from -90 on.
    aten.binary_cross_entropy_with_logits.default: _always,
    aten.log_sigmoid.default: _always,
    aten.log_sigmoid_forward.default: _always,
    aten.soft_margin_loss.default: _always,
    aten.multilabel_margin_loss.default: _always,
    # The exponential of large numbers.
    aten.logaddexp.default: _always,
    aten.logaddexp2.default: _always,
    # One type is expected of all.
    aten.layer_norm.default: _mixes,
    aten.native_layer_norm.default: _mixes,
    aten.native_group_norm.default: _mixes,
    # Of a Clip with one bound the other is the largest finite number.
    aten.clamp.default: _lacks_one("min", "max"),
    aten.clamp_min.default: _always,
    aten.clamp_max.default: _always,
    # One where it is to be zero, and the other way round.
    aten.bernoulli.default: _always,
}
"""Operators that go in parts."""
KEPT: Mapping[OpOverload, Concerned] = {
    # The exponential of large numbers.
    aten.logcumsumexp.default: _always,
    # A sum, or a mean that counts the wrong elements.
    aten.scatter_reduce.two: _is("reduce", "mean"),
    # The divisor is left out.
    aten.avg_pool2d.default: _given("divisor_override", None),
    aten.avg_pool3d.default: _given("divisor_override", None),
    # Dropout is left out.
    aten.scaled_dot_product_attention.default: _given("dropout_p", 0.0),
    # The mean of an empty bag ends the process.
    aten.embedding_bag.default: _is("mode", _MEAN_OF_BAGS),
    aten.embedding_bag.padding_idx: _is("mode", _MEAN_OF_BAGS),
    aten._embedding_bag.default: _is("mode", _MEAN_OF_BAGS),
    aten._embedding_bag_forward_only.default: _is("mode", _MEAN_OF_BAGS),
    # A comparison with 0 does not see the sign of -0.
    aten.signbit.default: _always,
    aten.copysign.Tensor: _always,
    aten.copysign.Scalar: _always,
    # The quadrant is told by the signs of numbers, of which 0 has none and NaN neither.
    aten.atan2.default: _always,
    # Quotients through float32, which has 24 bits; powers, products and remainders through floating point.
    **dict.fromkeys(
        (
            aten.div.Tensor_mode, aten.div.Scalar_mode, aten.prod.default, aten.prod.dim_int, aten.fmod.Tensor,
            aten.fmod.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar,
        ),
        _makes(_INTEGERS),
    ),
    # Without the filter.
    aten._upsample_bilinear2d_aa.default: _always,
    aten._upsample_bilinear2d_aa.vec: _always,
    aten._upsample_bicubic2d_aa.default: _always,
    aten._upsample_bicubic2d_aa.vec: _always,
    # Axes that a number has not, and kernels that refuse what is empty.
    **dict.fromkeys(
        (
            aten.max.dim, aten.min.dim, aten.aminmax.default, aten.topk.default, aten.linalg_vector_norm.default,
            aten.sort.default, aten.sort.stable, aten.logsumexp.default,
        ),
        _single,
    ),
    **dict.fromkeys((aten.im2col.default, aten.pad.default, aten._pad_circular.default), _empty),
    # Its parts write to a copy, which the exporter refuses.
    aten.diagonal_scatter.default: _always,
}  # fmt: skip
"""Operators that stay PyTorch's."""
NAMESPACE = "hetpart_kept"
"""Of the names that such calls have while a program is translated: all calls of an operator have one translation."""
_library = torch.library.Library(NAMESPACE, "FRAGMENT")
_original: dict[OpOverload, OpOverload] = {}
_renamed: dict[tuple[OpOverload, tuple[str, ...]], OpOverload] = {}


def parts_of(program: torch.export.ExportedProgram) -> dict[OpOverload, Callable[..., Any]]:
    """How the operators in ``program`` are taken apart that go wrong whole; with what lies in their parts."""
    if not any(_concerns(DIVIDED, node) for node in _calls(program)):
        return {}
    others = torch.export.default_decompositions()
    return {target: _OWN.get(target) or decomposition_table.get(target) or others[target] for target in DIVIDED}


def _clamped(x: torch.Tensor, least: Any = None, most: Any = None, **named: Any) -> torch.Tensor:
    least, most = named.get("min", least), named.get("max", most)
    made = x if least is None else torch.maximum(x, _bound(x, least))
    return made if most is None else torch.minimum(made, _bound(made, most))


def _clamped_above(x: torch.Tensor, most: Any) -> torch.Tensor:
    return _clamped(x, None, most)


def _bound(x: torch.Tensor, number: Any) -> torch.Tensor:
    return torch.full((), number, dtype=torch.result_type(x, number), device=x.device)


_OWN: Mapping[OpOverload, Callable[..., torch.Tensor]] = {
    aten.clamp.default: _clamped,
    aten.clamp_min.default: _clamped,
    aten.clamp_max.default: _clamped_above,
}
"""Parts of those that PyTorch has none of."""


@contextmanager
def apart(program: torch.export.ExportedProgram) -> Generator[None]:
    """Let the calls of ``program`` that go right whole have names of their own within."""
    for node in _calls(program):
        if node.target in DIVIDED and not _concerns(DIVIDED, node):
            _keep(node)
    try:
        yield
    finally:
        restore(program)


@contextmanager
def kept(program: torch.export.ExportedProgram) -> Generator[set[OpOverload]]:
    """Let the calls of ``program`` that stay PyTorch's have names of their own within; which names those are."""
    for node in _calls(program):
        if _concerns(KEPT, node):
            _keep(node)
    try:
        yield own_names(program)
    finally:
        restore(program)


def keep(program: torch.export.ExportedProgram, names: AbstractSet[str]) -> bool:
    """Let the calls ``names`` outside branches and loops stay PyTorch's too, where they can; whether one does."""
    able = [node for node in _calls(program) if node.graph is program.graph and node.name in names and _can_stay(node)]
    for node in able:
        _keep(node)
    return bool(able)


def own_names(program: torch.export.ExportedProgram) -> set[OpOverload]:
    """The names of the calls of ``program`` that stay PyTorch's."""
    return {node.target for node in _calls(program) if isinstance(node.target, OpOverload) and node.target in _original}


def _can_stay(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target not in _original and not node.target.is_view


def _keep(node: Node) -> None:
    assert isinstance(node.target, OpOverload)
    node.target = _under_own_name(node.target, _numbers(node))


def restore(program: torch.export.ExportedProgram) -> None:
    """Let all calls in ``program`` have PyTorch's names."""
    for node in _calls(program):
        if isinstance(node.target, OpOverload):
            node.target = original_of(node.target)
    for module in _graphs(program):
        module.recompile()


def _concerns(table: Mapping[OpOverload, Concerned], node: Node) -> bool:
    concerned = table.get(node.target) if isinstance(node.target, OpOverload) else None
    return concerned is not None and concerned(node)


def _calls(program: torch.export.ExportedProgram) -> Iterator[Node]:
    """Those in branches and loops too."""
    return (node for module in _graphs(program) for node in module.graph.nodes if node.op == "call_function")


def _graphs(program: torch.export.ExportedProgram) -> Iterator[GraphModule]:
    whole: GraphModule = program.graph_module
    return (module for module in whole.modules() if isinstance(module, GraphModule))


def _numbers(node: Node) -> tuple[str, ...]:
    """The arguments for tensors that are given numbers, as PyTorch's own operators may be."""
    assert isinstance(node.target, OpOverload)
    known = node.target._schema.arguments
    return tuple(
        one.name for one, given in zip(known, node.args, strict=False)
        if str(one.type) == "Tensor" and isinstance(given, int | float)
    )  # fmt: skip


def _under_own_name(target: OpOverload, numbers: tuple[str, ...]) -> OpOverload:
    """An operator that does what ``target`` does; its arguments ``numbers`` are numbers."""
    if (target, numbers) not in _renamed:
        name = "_".join([str(target).replace(".", "_"), *numbers])
        schema = str(target._schema)
        for number in numbers:
            schema = schema.replace(f"Tensor {number}", f"Scalar {number}")
        _library.define(f"{name}{schema[schema.index('(') :]}")
        _library._register_fake(name, partial(_call, target))  # it is traced alone, and never run
        own = getattr(getattr(torch.ops, NAMESPACE), name).default
        _renamed[target, numbers], _original[own] = own, target
    return _renamed[target, numbers]


def _call(target: OpOverload, *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


def original_of(target: OpOverload) -> OpOverload:
    """What PyTorch calls an operator that has a name of its own here."""
    return _original.get(target, target)
