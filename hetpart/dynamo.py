# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""``torch.compile(model, backend="hetpart", options={"budget": "8GB"})``: every graph that Dynamo captures is planned.

Tensors that belong to the module, its parameters and buffers, are weights of the plan; the others are its inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hetpart.compiler import partition
from hetpart.errors import HetpartError, InvalidModelError, InvalidOptionError

_STATIC_KEY = "_dynamo_static_input_type"
"""What Dynamo writes on the inputs of a graph that are parameters and buffers."""
_OF_SESSION = ("emulate", "threads", "overlap", "emulate_link")
_OF_PLAN = (
    "budget", "hardware", "pin", "colocate", "host_budget", "headroom", "max_partitions", "min_gain", "placement",
    "threads", "trip_count", "access", "time_limit", "overlap", "stream",
)  # fmt: skip
_MOST_PLANS = 16
"""Of one graph, by the sizes it is called with; the oldest goes first."""

Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The keywords of ``hetpart.partition`` and of its session, as ``torch.compile`` hands them over."""

    plan: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> BackendOptions:
        """The options as they were given.

        Raises:
            InvalidOptionError: there is no such option.
        """
        asked = dict(given or {})
        unknown = sorted(set(asked) - {*_OF_PLAN, *_OF_SESSION})
        if unknown:
            raise InvalidOptionError(
                f"the backend 'hetpart' has no option {', '.join(map(repr, unknown))}",
                hint=f"it has {', '.join(sorted({*_OF_PLAN, *_OF_SESSION}))}",
            )
        return cls(
            {name: asked[name] for name in _OF_PLAN if name in asked},
            {name: asked[name] for name in _OF_SESSION if name in asked},
        )


def backend(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Run:
    """What runs ``graph`` by a plan. A graph that cannot be exported runs in PyTorch, with a warning that says why.

    Raises:
        InvalidOptionError: an option is unknown.
        HetpartError: gradients are to be recorded, which plans do not.
    """
    asked = BackendOptions.of(options)
    if torch.is_grad_enabled() and any(_records(given) for given in example_inputs):
        raise HetpartError(
            "the backend 'hetpart' runs models and does not train them, and gradients are to be recorded",
            hint="call the compiled model under torch.no_grad() or torch.inference_mode()",
        )
    if not any(node.op.startswith("call_") for node in graph.graph.nodes):
        return graph.forward
    return PlannedGraph(graph, _weights(graph, example_inputs), asked)


def _records(given: object) -> bool:
    return isinstance(given, torch.Tensor) and given.requires_grad


def _weights(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """Of the graph's inputs those that belong to the module, by place."""
    placeholders = (node for node in graph.graph.nodes if node.op == "placeholder")
    return {
        place: given
        for place, (node, given) in enumerate(zip(placeholders, example_inputs, strict=True))
        if isinstance(given, torch.Tensor) and _is_weight(node, given)
    }


def _is_weight(node: torch.fx.Node, given: torch.Tensor) -> bool:
    return isinstance(given, torch.nn.Parameter) or _STATIC_KEY in (node.meta.get("tensor_dict") or {})


class _Bound(torch.nn.Module):
    """A graph whose weights are its own, so that only the rest is given."""

    def __init__(self, graph: torch.fx.GraphModule, weights: Mapping[int, torch.Tensor]) -> None:
        super().__init__()
        self.graph = graph
        self._places = {place: f"weight_{place}" for place in weights}
        for place, name in self._places.items():
            self.register_buffer(name, weights[place].detach())
        self.eval()

    def forward(self, *given: Any) -> Any:
        rest = iter(given)
        count = len(given) + len(self._places)
        return self.graph(*(getattr(self, self._places[n]) if n in self._places else next(rest) for n in range(count)))


class PlannedGraph:
    """A graph with a plan for every set of sizes that it is called with."""

    def __init__(
        self, graph: torch.fx.GraphModule, weights: Mapping[int, torch.Tensor], options: BackendOptions
    ) -> None:
        self._graph, self._weights, self._options = graph, weights, options
        self._plans: dict[tuple[Any, ...], Run] = {}

    def __call__(self, *given: Any) -> Any:
        """What the graph returns for the inputs and weights that Dynamo gives."""
        rest = [value for place, value in enumerate(given) if place not in self._weights]
        key = (*map(_size_of, rest), *(tensor._version for tensor in self._weights.values()))
        if key not in self._plans:
            while len(self._plans) >= _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = self._planned(rest)
        return self._plans[key](*rest)

    def _planned(self, given: Sequence[Any]) -> Run:
        bound = _Bound(self._graph, self._weights)
        try:
            planned = partition(bound, args=tuple(given), **self._options.plan)
        except InvalidModelError as error:
            warnings.warn(f"a graph of {_calls(self._graph)} calls runs in PyTorch: {error.message}", stacklevel=2)
            return bound
        return planned.to_module(**self._options.session)


def _size_of(value: Any) -> Any:
    return (tuple(value.shape), value.dtype, value.device) if isinstance(value, torch.Tensor) else value


def _calls(graph: torch.fx.GraphModule) -> int:
    return sum(node.op.startswith("call_") for node in graph.graph.nodes)
