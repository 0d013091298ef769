# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportMissingTypeStubs=false
"""A loss as one graph of what it computes and its gradients.

It is traced twice: once as it runs, with autograd beneath, and once without its mutations. ``torch.func.grad`` would
not do: it refuses batch normalisation, which changes a buffer inside.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

from hetpart.errors import InvalidModelError
from hetpart.frontend.kept import parts_of_all
from hetpart.training.capture import OWN, PREFIX, Exported, Input
from hetpart.training.held import require_apart, require_unwritten
from hetpart.training.lookups import LOOKUP_PARTS, LookingUp, Lookup, require_lookups
from hetpart.training.precision import Casting
from hetpart.training.seeded import seeded
from hetpart.training.traced import traceable
from hetpart.training.transposes import without_turns
from hetpart.training.writer import LOSS_SCALE, SEED

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_CHANGED = (InputKind.PARAMETER, InputKind.BUFFER)
_PASSED_ON = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """A loss, its gradients, and what a step changes beside parameters."""

    graph: GraphModule
    inputs: Sequence[Input]
    loss: Node
    written: dict[str, Node]
    """New contents of buffers, by name."""
    gradients: dict[str, Node]
    """By the name of the parameter."""
    lookups: Sequence[Lookup] = ()
    """Of parameters that are tables: their gradients are of what was looked up."""

    @property
    def updated(self) -> set[str]:
        """Names of the parameters that a step changes."""
        return {*self.gradients, *(lookup.table for lookup in self.lookups)}

    def of(self, kind: InputKind) -> list[Input]:
        """The inputs of a kind."""
        return [given for given in self.inputs if given.kind is kind]


def gradients_of(
    loss: Exported, tables: AbstractSet[str] = frozenset(), half: torch.dtype | None = None, *, scaled: bool = False
) -> Gradients:
    """The graph of a loss and its gradients.

    Args:
        loss: What is differentiated.
        tables: Parameters whose gradients are those of what is looked up in them.
        half: The type of the other parameters, and of what ``precision`` lists.
        scaled: Whether gradients are of the loss times a number that the graph is given.

    Raises:
        InvalidModelError: it cannot be traced, is no number, or uses a table otherwise than to look up rows.
    """
    inputs = list(loss.inputs)
    require_lookups(loss.program, {part.node.name: part.name for part in inputs if part.name in tables})
    if scaled:
        inputs.append(Input(f"{OWN}{LOSS_SCALE}", InputKind.USER_INPUT, inputs[-1].node, torch.ones(())))
    with traceable(), _known_forms():
        made, lookups = _joint(loss, inputs, tables, half)
    told = _told(made, inputs, lookups, tables)
    require_apart({part.name: part.content for part in loss.inputs}, {*told.updated, *told.written})
    return told


@contextmanager
def _known_forms() -> Generator[None]:
    """Refuse in words an operator of whose results PyTorch's tracer knows no form."""
    try:
        yield
    except UnsupportedOperatorException as error:
        raise InvalidModelError(
            f"the loss or its gradient calls {error}, and PyTorch cannot tell the form of what that makes in a trace",
            hint="compute that part by other operators; of one of your own, torch.library.register_fake tells it",
        ) from error


def _joint(
    whole: Exported, inputs: list[Input], tables: AbstractSet[str], half: torch.dtype | None
) -> tuple[GraphModule, Sequence[Lookup]]:
    """A graph that returns the loss, every buffer, a gradient, or nothing, for every parameter, and all of the lookups.

    ``inputs`` has one more where it draws numbers.
    """
    lookups: list[Lookup] = []
    given = [_given(part, None if part.name in tables else half) for part in inputs]
    scaled, program = inputs[-1].name == f"{OWN}{LOSS_SCALE}", whole.program

    def joint(*given: Any) -> list[Any]:
        own = [_own(value, part, tables) for value, part in zip(given, inputs, strict=True)]
        shared = {part.name: value for value, part in zip(own, inputs, strict=True) if part.kind in _CHANGED}
        here = [shared.get(part.name, value) for value, part in zip(own, inputs, strict=True)]
        looking = _looking(program, {name: shared[name] for name in tables}, half, zip(here, inputs, strict=False))
        loss, *contents = looking.run(*here[: len(here) - scaled])
        assigned = dict(zip(whole.assigned, contents, strict=True))
        _require_scalar(loss)
        scale = here[-1].expand_as(loss) if scaled else None
        lookups[:] = looking.found
        trained = [value for value in shared.values() if value.requires_grad]
        setup_stacktrace_preservation_hooks([loss.grad_fn])
        leaves = [lookup.leaf for lookup in lookups]
        gradients = torch.autograd.grad(loss, [*trained, *leaves], scale, allow_unused=True)
        buffers = [
            assigned.get(part.name, value)
            for value, part in zip(here, inputs, strict=True)
            if part.kind is InputKind.BUFFER
        ]
        slopes = zip(lookups, gradients[len(trained) :], strict=True)
        rows = [part for lookup, slope in slopes for part in lookup.parts(slope)]
        return [loss.detach(), *buffers, *gradients[: len(trained)], *rows]

    with enable_python_dispatcher():
        first = make_fx(joint, tracing_mode="fake")(*given)
        _say_where(first)
        if seeded(first):
            seed = first.graph.find_nodes(op="placeholder")[-1]
            inputs.append(Input(f"{OWN}{SEED}", InputKind.USER_INPUT, seed, None))
            given.append(torch.zeros(2, dtype=torch.int64))
        return _unmutated(first, given, inputs, tables), lookups


def _unmutated(first: GraphModule, given: list[Any], inputs: list[Input], tables: AbstractSet[str]) -> GraphModule:
    """The same without mutations: ``given`` that, but full precision where no step makes halves of it."""
    types = [value.dtype if isinstance(value, torch.Tensor) else None for value in given]
    still = _still(first, inputs, tables)
    whole = [inputs[place].content.detach() if place in still else value for place, value in enumerate(given)]
    pure: Any = torch.func.functionalize(Interpreter(first).run, remove="mutations")
    # What would be taken apart later is here: to find one such operator then, PyTorch traces all of the step again.
    parts = parts_of_all()
    return make_fx(lambda *values: pure(*map(_as_read, values, types)), parts, tracing_mode="fake")(*whole)


def _still(graph: GraphModule, inputs: Sequence[Input], tables: AbstractSet[str]) -> set[int]:
    """The places of parameters without a gradient: no step makes halves of them."""
    trained = [
        place for place, part in enumerate(inputs) if part.kind is InputKind.PARAMETER and part.name not in tables
    ]
    returned: Any = graph.graph.output_node().args[0]
    buffers = sum(part.kind is InputKind.BUFFER for part in inputs)
    return {place for place, gradient in zip(trained, returned[1 + buffers :], strict=False) if gradient is None}


def _as_read(value: Any, dtype: torch.dtype | None) -> Any:
    """As the graph of a loss and its gradients reads it."""
    return value if dtype is None or value.dtype == dtype else value.to(dtype)


def _looking(
    program: ExportedProgram, tables: Mapping[str, Any], half: torch.dtype | None, given: Iterable[tuple[Any, Input]]
) -> LookingUp:
    """What runs the graph of a loss, which is ``given`` that."""
    module = program.graph_module
    halved = [value for value, part in given if half is not None and _is_halved(part)]
    return Casting(module, tables, half, halved) if half else LookingUp(module, tables)


def _given(part: Input, half: torch.dtype | None) -> Any:
    """Of the form that the graph is given; its content is of no consequence."""
    if not isinstance(part.content, torch.Tensor):
        return part.content
    content = part.content.detach()
    return torch.empty_like(content, dtype=half) if half is not None and _is_halved(part) else content


def _is_halved(part: Input) -> bool:
    """Whether it is a parameter that steps in half precision read so, if it is no table."""
    return part.kind is InputKind.PARAMETER and part.content.dtype == torch.float32


def _own(value: Any, part: Input, tables: AbstractSet[str]) -> Any:
    if part.kind is InputKind.PARAMETER:
        return value.detach().requires_grad_(part.name not in tables)
    may_change = part.kind in (InputKind.BUFFER, InputKind.USER_INPUT) and isinstance(value, torch.Tensor)
    return value.clone() if may_change else value


def _require_scalar(loss: Any) -> None:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.grad_fn is None:
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise InvalidModelError(
            f"loss_fn returns {what}{'' if getattr(loss, 'grad_fn', None) else ' that depends on no parameter'}",
            hint="it takes the model and the batch, and returns one number that depends on parameters; behind "
            "torch.utils.checkpoint with use_reentrant=True nothing does: say use_reentrant=False",
        )
    if not loss.is_floating_point():
        raise InvalidModelError(
            f"loss_fn returns a number of {str(loss.dtype).removeprefix('torch.')}",
            hint="return a real one, such as .abs()",
        )


def _say_where(graph: GraphModule) -> None:
    """Let every node of the backward pass be of the module whose gradient it computes, by the name that the model has.

    Autograd numbers what it records, and what it computes for that.
    """
    first: dict[int, Node] = {}
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {key: (_in_model(path), kind) for key, (path, kind) in stack.items()}
        number = node.meta.get("seq_nr")
        if number is None:
            continue
        if node.meta.get("nn_module_stack"):
            first.setdefault(number, node)
        elif number in first:
            origin = first[number].meta
            node.meta |= {key: origin[key] for key in ("nn_module_stack", "stack_trace") if key in origin}


def _in_model(path: str) -> str:
    """The path of a module in the model, where it is one in what computes its loss: parameters are called so too."""
    return "" if path == PREFIX.removesuffix(".") else path.removeprefix(PREFIX)


def _passes_on(node: Node) -> bool:
    """Whether it only told apart what was changed in place, which nothing is any more."""
    is_copy = node.target is torch.ops.aten.clone.default and node.args[0].op == "placeholder"  # pyright: ignore
    return is_copy or node.target in _PASSED_ON


def _told(made: GraphModule, inputs: Sequence[Input], lookups: Sequence[Lookup], tables: AbstractSet[str]) -> Gradients:
    graph = made.graph
    for node in graph.nodes:
        if _passes_on(node):
            node.replace_all_uses_with(node.args[0])
    without_turns(graph)
    placeholders = graph.find_nodes(op="placeholder")
    given = [replace(part, node=node) for part, node in zip(inputs, placeholders, strict=True)]
    require_unwritten({part.node: part.name for part in given})
    returned: Any = graph.output_node().args[0]
    rest: Any = iter(returned)
    loss = next(rest)
    contents = {part.name: (part, next(rest)) for part in given if part.kind is InputKind.BUFFER}
    trained = [part.name for part in given if part.kind is InputKind.PARAMETER and part.name not in tables]
    gradients = {name: next(rest) for name in trained}
    found = [lookup.of(list(islice(rest, LOOKUP_PARTS))) for lookup in lookups]
    return Gradients(
        made,
        given,
        loss,
        {name: node for name, (part, node) in contents.items() if node is not part.node},
        {name: node for name, node in gradients.items() if node is not None},
        [lookup for lookup in found if lookup.leaf is not None],
    )
