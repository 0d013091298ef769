# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Operators without a translation to ONNX, left as nodes of hetpart's own that PyTorch runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype
from onnxscript import evaluator
from torch._ops import OpOverload
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError
from hetpart.frontend.calls import Call, runs_on, written
from hetpart.frontend.copying import NAMESPACE, called_by
from hetpart.frontend.formed import NAMESPACE as FORMED
from hetpart.frontend.higher import CALLED, operator_in, results_in
from hetpart.frontend.kept import original_of
from hetpart.frontend.packed import NAMESPACE as PACKED
from hetpart.frontend.said import quiet
from hetpart.graph.calls import CALL, CALL_DOMAIN, OVERWRITES, RUNS_ON

if TYPE_CHECKING:
    from torch.fx import Node
    from torch.onnx import ONNXProgram

_AT_NODE = re.compile(r"Error when translating node .*?\[target=torch\.ops\.(\w+)\.(\w+)\.(\w+)\]", re.DOTALL)
"""How the exporter says at which node it failed."""
OWN_NAMESPACE = "hetpart"
"""Of operators that hetpart registers."""
_OWN = (OWN_NAMESPACE, NAMESPACE, CALLED.namespace, PACKED, FORMED)
Translations = dict[Any, Callable[..., Any]]
"""By operator, as ``torch.onnx.export`` takes them."""


def failed_at(causes: Sequence[BaseException]) -> OpOverload | None:
    """The operator whose node the exporter could not translate; ``None`` where it was none or something else."""
    found = next((match for cause in causes if (match := _AT_NODE.search(str(cause)))), None)
    if found is None:
        return None
    packet = getattr(getattr(torch.ops, found[1]), found[2], None)
    target = getattr(packet, found[3], None)
    return target if isinstance(target, OpOverload) else None


def own_operators(program: torch.export.ExportedProgram) -> set[OpOverload]:
    """The operators in ``program`` that are hetpart's own, as those of a training step, or that write to copies."""
    called = (node.target for node in program.graph.nodes)
    return {target for target in called if isinstance(target, OpOverload) and target.namespace in _OWN}


def left_to_pytorch(target: OpOverload, program: torch.export.ExportedProgram) -> Callable[..., Any]:
    """A translation of ``target`` to one node that says nothing of what it computes."""
    if target is CALLED:
        return _run_whole
    lists = _lists(target)
    lengths = _listed(target, program) if lists else ()
    is_alone = len(target._schema.returns) == 1

    def leave(*args: Any, **kwargs: Any) -> Any:
        given = list(_values([*args, *kwargs.values()]))
        number = sum(lengths) + len(target._schema.returns) - len(lists)
        node = ir.Node(CALL_DOMAIN, str(called_by(original_of(target))), given, num_outputs=number, version=1)
        recorder: Any = evaluator.default()
        recorder.nodes.append(node)
        rest, sizes = iter(node.outputs), dict(zip(lists, lengths, strict=True))
        made = [
            _Values(islice(rest, sizes[place])) if place in sizes else next(rest)
            for place in range(len(target._schema.returns))
        ]
        return made[0] if is_alone else made

    leave.__name__ = str(target).replace(".", "_")
    return leave


class _Values(list[ir.Value]):
    """A list among results, which the exporter takes for a value: it names all of them, and their nodes."""

    name = ""

    def producer(self) -> None:
        """No node that is to be named after it."""


def _lists(target: OpOverload) -> list[int]:
    """Which of what ``target`` returns are lists."""
    return [place for place, one in enumerate(target._schema.returns) if str(one.type) == "List[Tensor]"]


def _run_whole(text: str, tensors: Sequence[ir.Value]) -> list[ir.Value]:
    node = ir.Node(CALL_DOMAIN, operator_in(text), list(tensors), num_outputs=results_in(text), version=1)
    recorder: Any = evaluator.default()
    recorder.nodes.append(node)
    return list(node.outputs)


@contextmanager
def complex_too(left: Translations) -> Generator[None]:
    """Let the translations ``left`` be those of calls with complex arguments too: the exporter takes none for them."""
    known = ONNXRegistry.register_op

    def registered(self: Any, target: Any, function: Any, is_complex: bool = False) -> None:
        known(self, target, function, is_complex)
        if target in left:
            known(self, target, function, is_complex=True)

    ONNXRegistry.register_op = registered
    try:
        yield
    finally:
        ONNXRegistry.register_op = known


def _listed(target: OpOverload, program: torch.export.ExportedProgram) -> tuple[int, ...]:
    """How many tensors are in every list that ``target`` returns."""
    lengths = _lengths(target, program)
    if not lengths:  # a part of what is called
        with quiet():
            lengths = _lengths(target, program.run_decompositions())
    if len(lengths) != 1:
        raise InvalidModelError(
            f"{target} has no translation to ONNX, and returns lists of {_told(lengths)} tensors",
            hint="write that part in other operators, or leave it out of what is partitioned",
        )
    return lengths.pop()


def _told(lengths: set[tuple[int, ...]]) -> str:
    return " or ".join(" and ".join(map(str, each)) for each in sorted(lengths)) or "unknown numbers of"


def _lengths(target: OpOverload, program: torch.export.ExportedProgram) -> set[tuple[int, ...]]:
    is_alone = len(target._schema.returns) == 1
    made = [
        [node.meta["val"]] if is_alone else node.meta["val"] for node in program.graph.nodes if node.target is target
    ]
    return {tuple(len(each[place]) for place in _lists(target)) for each in made}


def _values(arguments: Any) -> Iterator[ir.Value]:
    """The tensors and numbers among the arguments that a run computes."""
    for argument in arguments:
        if isinstance(argument, ir.Value):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _values(cast("Sequence[Any]", argument))


def tell_calls(made: ONNXProgram, name: str) -> tuple[str, ...]:
    """Write to every node that PyTorch runs which call it stands for; returns what the user should know.

    Raises:
        InvalidModelError: one is in a branch or a loop, or its arguments cannot be written.
    """
    _require_outside(made, name)
    numbers: dict[str, int] = {}
    for node in made.model.graph:
        if node.domain == CALL_DOMAIN:
            _tell(node, name)
            numbers[node.op_type] = numbers.get(node.op_type, 0) + 1
    listed = ", ".join(f"{operator} ×{number}" if number > 1 else operator for operator, number in numbers.items())
    return (f"PyTorch runs what has no translation to ONNX: {listed}",) if numbers else ()


def _tell(node: ir.Node, name: str) -> None:
    traced: Node = node.meta["node"]
    try:
        call = written(traced)
    except TypeError as refused:
        raise InvalidModelError(
            f"{name} uses {node.op_type}, which has no translation to ONNX, with {refused}",
            hint="write that part in other operators, or leave it out of what is partitioned",
        ) from refused
    assert isinstance(traced.target, OpOverload)
    _type_lists(node, traced)
    node.attributes[CALL] = ir.AttrString(CALL, call)
    node.attributes[RUNS_ON] = ir.AttrStrings(RUNS_ON, list(runs_on(traced.target)))
    over = Call.read(call).over
    if over:
        node.attributes[OVERWRITES] = ir.AttrInt64s(OVERWRITES, over)


def _type_lists(node: ir.Node, traced: Node) -> None:
    """Say of what is in a list beside other results what it is: the exporter does so of results alone."""
    found = pytree.tree_leaves(traced.meta["val"])
    for value, known in zip(node.outputs, found, strict=False):
        if value.type is None and isinstance(known, torch.Tensor):
            value.dtype, value.shape = _form(known)


def _form(known: Any) -> tuple[ir.DataType, ir.Shape]:
    """Type and shape of ``known`` in ONNX, where complex numbers are pairs of real ones."""
    sizes = [size if isinstance(size, int) else str(size) for size in known.shape]
    if not known.is_complex():
        return from_torch_dtype(known.dtype), ir.Shape(sizes)
    return from_torch_dtype(known.dtype.to_real()), ir.Shape([*sizes, 2])


def called_inside(made: ONNXProgram) -> list[str]:
    """Operators inside branches and loops that PyTorch would have to run."""
    model = made.model
    graphs: list[Any] = [model.graph, *(function.graph for function in model.functions.values())]
    nodes = (node for graph in graphs for node in ir.traversal.RecursiveGraphIterator(graph))
    return [node.op_type for node in nodes if node.domain == CALL_DOMAIN and node.graph is not model.graph]


def _require_outside(made: ONNXProgram, name: str) -> None:
    inner = called_inside(made)
    if inner:
        raise InvalidModelError(
            f"{name} uses {inner[0]} inside a loop, or a branch that a number decides, without a translation to ONNX",
            hint="take it out of the loop, or write it in other operators",
        )
