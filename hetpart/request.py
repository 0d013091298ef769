"""What is asked of a plan, read into one record, and a model priced and formulated as it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING

from hetpart.budgets import Budget, BudgetOption, ResolvedBudgets, parse_budget, resolve_budgets
from hetpart.config import Pin, PinOption, ShapeOption, known_device, parse_pins, parse_shapes
from hetpart.constraints import (
    ColocateOption,
    Constraints,
    GainOption,
    HeadroomOption,
    NamesOption,
    parse_bindings,
    parse_colocations,
    parse_headroom,
    parse_limits,
    parse_states,
)
from hetpart.cost_model.annotate import annotate as price
from hetpart.cost_model.assumptions import AccessOption, Assumptions, TripOption, parse_assumptions
from hetpart.cost_model.kernels import ONNX_RUNTIME
from hetpart.cost_model.machines import free_memory_bytes, load_machine
from hetpart.errors import InvalidOptionError
from hetpart.frontend.example import Example, ExampleOptions
from hetpart.frontend.road import as_exported, as_readable
from hetpart.graph.from_onnx import import_onnx
from hetpart.kinds import require_kinds
from hetpart.partitioner.colocate import bound_ops, colocated, kept
from hetpart.partitioner.pins import resolve_pins
from hetpart.units import OPEN, format_bytes

if TYPE_CHECKING:
    from hetpart.constraints import Headroom, Limits
    from hetpart.cost_model.annotate import Costs
    from hetpart.devices import Machine
    from hetpart.frontend.model import ExportedModel, Model
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.graph.ir import Graph
    from hetpart.graph.load import LoadedModel
    from hetpart.partitioner.assembly.assemble import Assembly
    from hetpart.partitioner.formulate import Formulation
    from hetpart.partitioner.problem import Placement

TIME_LIMIT = 30.0
"""Seconds of search where none are given."""


class RequestOptions(ExampleOptions, total=False):
    """The keywords that every question about a plan shares. They mean what they mean in ``hetpart.partition``."""

    shape: ShapeOption
    pin: PinOption
    colocate: ColocateOption
    host_budget: str | int | None
    headroom: HeadroomOption
    max_partitions: int | None
    min_gain: GainOption
    io: NamesOption
    state: NamesOption
    threads: int
    trip_count: TripOption
    access: AccessOption
    time_limit: float
    stream: bool | None


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan must keep to, whatever the machine."""

    budgets: tuple[Budget, ...]
    pins: tuple[Pin, ...]
    constraints: Constraints
    shapes: Mapping[str, int]
    assumptions: Assumptions
    threads: int
    time_limit: float
    stream: bool | None = None
    """Whether weights may be streamed; ``None`` where a byte of memory is worth more than copying it takes."""
    example: Example = field(default_factory=Example)
    """How the model is called, where it is PyTorch's."""

    @classmethod
    def of(cls, budget: BudgetOption, options: RequestOptions) -> Request:
        """The options as they were given, each read.

        Raises:
            InvalidOptionError: one of them cannot be understood, or two contradict each other.
        """
        require_kinds({**options, "budget": budget})
        threads, time_limit = options.get("threads", 0), options.get("time_limit", TIME_LIMIT)
        require(time_limit >= 0, "time_limit", time_limit, "it is a number of seconds from 0")
        limits = parse_limits(options.get("max_partitions"), options.get("min_gain"))
        return cls(
            budgets=_budgets(budget, options.get("host_budget")),
            pins=parse_pins(options.get("pin")),
            constraints=Constraints(
                parse_colocations(options.get("colocate")),
                parse_bindings(options.get("io")),
                parse_states(options.get("state")),
                limits,
                parse_headroom(options.get("headroom")),
            ),
            shapes=parse_shapes(options.get("shape")),
            assumptions=parse_assumptions(options.get("trip_count"), options.get("access")),
            threads=int(threads),
            time_limit=float(time_limit),
            stream=_stream(options.get("stream"), limits),
            example=Example.of(options),
        )

    def texts(self) -> dict[str, str]:
        """Every option that says the same, by name, for the plan."""
        return {
            "budget": " ".join(asked.text for asked in self.budgets) or "auto",
            "pin": " ".join(asked.text for asked in self.pins),
            "shape": ",".join(f"{name}={'?' if size == OPEN else size}" for name, size in self.shapes.items()),
            "threads": str(self.threads),
            **self.constraints.options(),
            **self.assumptions.options(),
            **({} if self.stream is None else {"stream": str(self.stream).lower()}),
        }

    def machine(self, hardware: str | PathLike[str] | None) -> Machine:
        """The machine that ``hardware`` names, with the threads asked for."""
        require_kinds({"hardware": hardware})
        return load_machine(hardware, threads=self.threads)

    def exported(self, model: Model) -> ExportedModel | None:
        """The model exported, where it is PyTorch's; ``read`` takes what was ``loaded`` so."""
        return as_exported(model, self.example, dict(self.shapes))

    def read(self, model: Model | LoadedModel) -> ImportedModel:
        """The model, its dimensions bound."""
        sizes = dict(self.shapes)
        return import_onnx(as_readable(model, self.example, sizes), sizes, ONNX_RUNTIME)

    def resolved_budgets(self, machine: Machine) -> ResolvedBudgets:
        """Bytes of every device that may be used, what is to stay free taken off."""
        found = resolve_budgets(self.budgets, machine, free_memory_bytes(machine))
        return _less(found, self.constraints.headroom, machine)

    def priced(self, graph: Graph, machine: Machine) -> Priced:
        """``graph`` priced on ``machine``, with what is pinned there."""
        costs = price(graph, machine, self.assumptions)
        return Priced(self, graph, costs, _pinned(self, graph, machine))


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A model with its costs on one machine: what is solved again and again under other budgets and pins."""

    request: Request
    graph: Graph
    costs: Costs
    pins: Mapping[int, str]

    def formulated(self, budgets: Mapping[str, int]) -> Formulation:
        """The placement problem under ``budgets`` and every constraint."""
        from hetpart.partitioner.formulate import formulate, with_bodies
        from hetpart.partitioner.states import with_states
        from hetpart.partitioner.streamable import with_streaming

        found = formulate(self.graph, self.costs, self.pins, budgets)
        found = colocated(found, self.graph, self.request.constraints)
        found = kept(found, self.graph, self.request.constraints, self.costs.machine)
        stream = self.request.stream
        if stream is not False and not self.request.constraints.limits:
            found = with_streaming(found, self.graph, self.costs, asked=bool(stream))
        found = with_bodies(found, self.graph, self.costs)
        return with_states(found, self.graph, self.request.constraints.states)

    def placed(
        self, formulation: Formulation, source: str | Placement = "optimal", time_limit: float | None = None
    ) -> Assembly:
        """The placement that ``source`` asks for, within every limit.

        Raises:
            InfeasibleError: nothing fits.
        """
        from hetpart.partitioner.fewer import place_within
        from hetpart.partitioner.place import place

        limit = self.request.time_limit if time_limit is None else time_limit

        def solved(formulation: Formulation, source: str | Placement) -> Assembly:
            return place(self.graph, self.costs, formulation, source, self.pins, limit)

        return place_within(formulation, self.request.constraints.limits, source, solved, limit)


def _stream(wanted: bool | None, limits: Limits) -> bool | None:
    if wanted and limits:
        raise InvalidOptionError(
            "weights are streamed through partitions of their own, and the cut is limited",
            hint="leave out --max-partitions and --min-gain, or --stream",
        )
    return wanted


def require(holds: bool, name: str, given: object, hint: str) -> None:
    """``holds``; if not, the option ``name`` cannot be what was ``given``."""
    if not holds:
        raise InvalidOptionError(f"{name} cannot be {given!r}", hint=hint)


def _budgets(budget: BudgetOption, host: str | int | None) -> tuple[Budget, ...]:
    """A host budget is a budget of the device ``cpu`` under a name of its own."""
    asked = parse_budget(budget)
    if host is None:
        return asked
    (own,) = parse_budget(f"cpu={host}")
    earlier = next((found for found in asked if found.device == own.device), own)
    if earlier.amount != own.amount:
        raise InvalidOptionError(
            f"the budget {earlier.text!r} and host_budget {str(host)!r} contradict each other", hint="keep one of them"
        )
    return (*(found for found in asked if found.device != own.device), own)


def _less(found: ResolvedBudgets, headroom: Headroom | None, machine: Machine) -> ResolvedBudgets:
    if headroom is None:
        return found
    nbytes, notes = dict(found.nbytes), list(found.notes)
    for device in machine.accelerators:
        whole = nbytes[device.name]
        left = whole - headroom.of(whole)
        if left < 0:
            raise InvalidOptionError(
                f"the headroom {headroom.text!r} is more than the budget of {device.name}, {format_bytes(whole)}",
                hint="leave less free, or raise the budget",
            )
        nbytes[device.name] = left
        notes.append(
            f"headroom {headroom.text}: {format_bytes(left)} of {format_bytes(whole)} on {device.name} is used"
        )
    return replace(found, nbytes=nbytes, notes=tuple(notes))


def _pinned(request: Request, graph: Graph, machine: Machine) -> dict[int, str]:
    """Pins, those in the model itself too, and ops that must be where a state is bound to."""
    pins = resolve_pins(request.pins, graph, machine)
    for op in graph.ops:
        by = op.pinned_by or "hetpart.pin"
        if op.pin and pins.setdefault(op.id, known_device(op.pin, machine, f"{by} to {op.pin}")) != op.pin:
            raise InvalidOptionError(
                f"{by} puts {op.name!r} on {op.pin}, and the option pin on {pins[op.id]}",
                hint="keep one of them",
            )
    for op, binding in bound_ops(request.constraints, graph, machine).items():
        if pins.setdefault(op, binding.device) != binding.device:
            raise InvalidOptionError(
                f"{binding.text!r} needs {graph.ops[op].name!r} on {binding.device}, a pin puts it on {pins[op]}",
                hint="keep one of them",
            )
    return dict(sorted(pins.items()))
