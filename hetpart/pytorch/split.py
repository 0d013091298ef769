# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""A plan back in PyTorch: one submodule for every piece of a device, and one for every copy between devices."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.fx import Graph, GraphModule, Node

from hetpart.devices import HOST
from hetpart.errors import InvalidOptionError
from hetpart.frontend.road import granted_in
from hetpart.frontend.weights import mapped, names_of_each
from hetpart.graph.granted import Asking, Granted
from hetpart.pytorch.call import Signature
from hetpart.pytorch.placed import device_by_node, device_by_source

if TYPE_CHECKING:
    from hetpart.frontend.model import ExportedModel
    from hetpart.graph import ir
    from hetpart.plan.model import Plan

_OUTSIDE = ("placeholder", "get_attr", "output")
_ASK = "ask_sizes"


class CopyTo(torch.nn.Module):
    """A copy to a device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor`` on the device."""
        return tensor.to(self.device)


class AskSizes(torch.nn.Module):
    """Refuses calls for which the code of the model goes another way than the program.

    Args:
        device: Where the arguments are.
        inputs: Their names, in order.
        granted: What is asked of them.
    """

    _is_impure = True
    """Nothing reads what it returns, and PyTorch is to keep it all the same."""

    def __init__(self, device: str, inputs: Sequence[str], granted: Granted) -> None:
        super().__init__()
        self.device, self._inputs, self._asking = device, tuple(inputs), Asking(granted)

    def forward(self, *given: torch.Tensor | int) -> None:
        """Nothing of what is right.

        Raises:
            InvalidFeedError: a size or a number is none that the program is for.
        """
        self._asking.require(dict(zip(self._inputs, given, strict=True)))


@dataclass(slots=True, eq=False)
class _Piece:
    """Nodes of one device that run together, and what crosses their border."""

    name: str
    device: str
    nodes: list[Node]
    inputs: dict[Node, None] = field(default_factory=dict[Node, None])
    outputs: dict[Node, None] = field(default_factory=dict[Node, None])


def split(exported: ExportedModel, plan: Plan, graph: ir.Graph, devices: Mapping[str, Any]) -> GraphModule:
    """The program in pieces by device, in an order in which none waits for a later one.

    Submodules have the attribute ``device``; weights are those of the model, not copies, and stay where they are.

    Raises:
        InvalidOptionError: ``devices`` names one that the plan has not, or PyTorch.
    """
    devices = _known(devices, [use.device for use in plan.devices])
    whole = exported.program.module(check_guards=False)
    _read_weights(exported, whole)
    found = device_by_node(whole.graph, plan, device_by_source(plan, graph))
    placed = {node: devices.get(device, device) for node, device in found.items()}
    host = plan.devices[HOST].device
    return _joined(exported, whole, _pieces(whole.graph, placed), placed, devices.get(host, host))


def _known(devices: object, planned: Sequence[str]) -> dict[str, str]:
    """The renamed devices of a plan, with PyTorch's names.

    Raises:
        InvalidOptionError: they are none.
    """
    if not isinstance(devices, Mapping):
        raise InvalidOptionError(f"to_fx cannot be given {devices!r}", hint='name devices: {"cuda:0": "cuda:1"}')
    given = cast("Mapping[str, Any]", devices)
    unknown = [name for name in given if name not in planned]
    if unknown:
        raise InvalidOptionError(
            f"to_fx is to rename {', '.join(map(repr, unknown))}, which the plan has not",
            hint=f"its devices are {', '.join(planned)}",
        )
    return {name: _device(name, other) for name, other in given.items()}


def _device(name: str, other: Any) -> str:
    try:
        return str(torch.device(other))
    except (RuntimeError, TypeError) as error:
        raise InvalidOptionError(
            f"to_fx is to call {name!r} {other!r}, which is no device of PyTorch's", hint='write "cpu" or "cuda:1"'
        ) from error


def _read_weights(exported: ExportedModel, whole: GraphModule) -> None:
    """Let ``whole`` have what files hold: they count, whatever the module was made with."""
    if exported.stored is None:
        return
    extents, called = exported.stored.extents, names_of_each(exported.program.state_dict, exported.tied)
    read: dict[tuple[str, ...], torch.Tensor] = {}
    own = (whole.named_parameters(remove_duplicate=False), whole.named_buffers(remove_duplicate=False))
    for name, tensor in [*own[0], *own[1]]:
        names = called.get(name, (name,))
        extent = next((extents[other] for other in names if other in extents), None)
        if extent is not None:
            content = read.setdefault(names, mapped(exported.stored.folder, extent, tensor))
            path, _, last = name.rpartition(".")
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            setattr(whole.get_submodule(path), last, torch.nn.Parameter(content, False) if is_parameter else content)


def _pieces(graph: Graph, placed: Mapping[Node, str]) -> list[_Piece]:
    """Every node is a stage later than what it needs from another device, so that no two pieces wait for each other."""
    stages: dict[Node, int] = {}
    members: dict[tuple[int, str], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node in placed:
            needed = [source for source in node.all_input_nodes if source in placed]
            stages[node] = max((stages[s] + (placed[s] != placed[node]) for s in needed), default=0)
            members[stages[node], placed[node]].append(node)
    pieces = [
        _Piece(f"partition_{number}", device, nodes)
        for number, ((_, device), nodes) in enumerate(sorted(members.items(), key=lambda item: item[0]))
    ]
    for piece in pieces:
        _find_borders(piece)
    return pieces


def _find_borders(piece: _Piece) -> None:
    inside = set(piece.nodes)
    for node in piece.nodes:
        for source in node.all_input_nodes:
            if source not in inside and source.op != "get_attr":
                piece.inputs[source] = None
        if any(user not in inside for user in node.users):
            piece.outputs[node] = None


def _joined(
    exported: ExportedModel, whole: GraphModule, pieces: list[_Piece], placed: Mapping[Node, str], host: str
) -> GraphModule:
    """The pieces called one after another, with a copy for every value and device that it is needed on."""
    modules: dict[str, torch.nn.Module] = {}
    outer = Graph()
    here: dict[tuple[Node, str], Node] = {}
    for node in whole.graph.nodes:
        if node.op == "placeholder":
            here[node, host] = outer.node_copy(node, lambda argument: argument)
    _ask(exported, outer, modules, host)

    def on(source: Node, device: str) -> Node:
        if source.op == "get_attr":
            return outer.node_copy(source, lambda argument: argument)
        if (source, device) not in here:
            own = here[source, placed.get(source, host)]
            here[source, device] = _copied(outer, modules, own, source, device)
        return here[source, device]

    for piece in pieces:
        modules[piece.name] = _submodule(whole, piece)
        call = outer.call_module(piece.name, tuple(on(source, piece.device) for source in piece.inputs))
        call.meta["device"] = piece.device
        for number, node in enumerate(piece.outputs):
            here[node, piece.device] = outer.call_function(operator.getitem, (call, number))
    _return(exported, whole, outer, {node.name: on(node, host) for node in _results(whole.graph)})
    return _module(whole, modules, outer)


def _ask(exported: ExportedModel, outer: Graph, modules: dict[str, torch.nn.Module], host: str) -> None:
    """Begin ``outer`` with a question after the sizes of its arguments, where the program is not for all."""
    given = {node.name: node for node in outer.nodes}
    granted = granted_in(exported, {name: _open_shape(node) for name, node in given.items()}, {})
    asked = {size.input: given[size.input] for size in granted.sizes}
    if asked:
        modules[_ASK] = AskSizes(host, list(asked), granted)
        outer.call_module(_ASK, tuple(asked.values()))


def _open_shape(node: Node) -> ir.Shape | None:
    value = node.meta.get("val")
    return (None,) * value.dim() if isinstance(value, torch.Tensor) else None


def _results(graph: Graph) -> list[Node]:
    (output,) = (node for node in graph.nodes if node.op == "output")
    return [node for node in output.args[0] if isinstance(node, Node)]


def _return(exported: ExportedModel, whole: GraphModule, outer: Graph, made: Mapping[str, Node]) -> None:
    """End ``outer`` as the module ends: what it changes is changed, what it returns has its structure."""
    signature = Signature.of(exported, [node.name for node in _results(whole.graph)])
    given = {node.name: node for node in outer.nodes if node.op == "placeholder"}
    for name, content in signature.written.items():
        outer.call_method("copy_", (given[name], made[content]))
    outer.output(tuple(made[item] if isinstance(item, str) else item.value for item in signature.outputs))
    caller = whole if signature.out_spec is None else exported.original.module(check_guards=False)
    outer.set_codegen(caller.graph._codegen)


def _copied(outer: Graph, modules: dict[str, torch.nn.Module], own: Node, source: Node, device: str) -> Node:
    if not isinstance(source.meta.get("val"), torch.Tensor):
        return own  # a number, which lies nowhere
    name = f"copy_{source.name}_to_{device.replace(':', '_')}"
    modules[name] = CopyTo(device)
    return outer.call_module(name, (own,))


def _submodule(whole: GraphModule, piece: _Piece) -> GraphModule:
    graph = Graph()
    made: dict[Node, Node] = {node: graph.placeholder(node.name) for node in piece.inputs}

    def inside(source: Node) -> Node:
        if source not in made:
            assert source.op == "get_attr"
            made[source] = graph.node_copy(source, lambda argument: argument)
        return made[source]

    for node in piece.nodes:
        made[node] = graph.node_copy(node, inside)
        if "device" in node.kwargs:
            made[node].update_kwarg("device", torch.device(piece.device))
    graph.output(tuple(made[node] for node in piece.outputs))
    module: Any = GraphModule(whole, graph, piece.name)
    module.device = piece.device
    return module


def _module(whole: GraphModule, modules: dict[str, torch.nn.Module], outer: Graph) -> GraphModule:
    """The outer graph with how the model is called and what it returns."""
    root = torch.nn.Module()
    for name, module in modules.items():
        root.add_module(name, module)
    for node in outer.nodes:
        if node.op == "get_attr":
            _hold(root, node.target, whole)
    return GraphModule(root, outer, "Partitioned")


def _hold(root: torch.nn.Module, target: Any, whole: GraphModule) -> None:
    """Let ``root`` have the attribute ``target`` of ``whole``."""
    held: Any = whole
    owner = root
    *path, last = str(target).split(".")
    for part in path:
        held = getattr(held, part)
        if not hasattr(owner, part):
            owner.add_module(part, torch.nn.Module())
        owner = getattr(owner, part)
    setattr(owner, last, getattr(held, last))
