"""Model → graph → costs: as far as it goes without placing anything, nor importing what places."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Unpack

from hetpart.config import ShapeOption, parse_shapes
from hetpart.cost_model.annotate import annotate as price
from hetpart.cost_model.assumptions import AccessOption, TripOption, parse_assumptions
from hetpart.cost_model.kernels import ONNX_RUNTIME
from hetpart.cost_model.machines import load_machine
from hetpart.errors import InvalidOptionError
from hetpart.frontend.example import Example, ExampleOptions
from hetpart.frontend.road import as_readable
from hetpart.garbage import cycles_sought_rarely
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph
from hetpart.kinds import require_kinds

if TYPE_CHECKING:
    from hetpart.cost_model.annotate import Costs
    from hetpart.frontend.model import Model


def load(model: Model, *, shape: ShapeOption = None, **example: Unpack[ExampleOptions]) -> Graph:
    """The graph of ``model`` as hetpart sees it: dimensions bound, shape arithmetic folded, no weight read.

    ``args``, ``kwargs``, ``dynamic_shapes`` and ``weights`` are those of ``partition``, for PyTorch models.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
    """
    sizes = parse_shapes(shape)
    return import_onnx(as_readable(model, Example.of(example), sizes), sizes, ONNX_RUNTIME).graph


def annotate(
    model: Model | Graph,
    *,
    hardware: str | PathLike[str] | None = None,
    shape: ShapeOption = None,
    threads: int = 0,
    trip_count: TripOption = None,
    access: AccessOption = None,
    **example: Unpack[ExampleOptions],
) -> Costs:
    """What every op of ``model`` costs on every device of ``hardware``, and why. ``ops[i]`` is op ``i`` of ``load``.

    A graph that ``load`` gave is taken as it is. ``trip_count``, ``access`` and, for PyTorch models, ``args``,
    ``kwargs``, ``dynamic_shapes`` and ``weights`` are those of ``partition``.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: The hardware is unknown, or an option cannot be understood.
    """
    require_kinds(
        {"hardware": hardware, "shape": shape, "threads": threads, "trip_count": trip_count, "access": access}
    )
    assumptions = parse_assumptions(trip_count, access)
    machine = load_machine(hardware, threads=threads)
    if shape and isinstance(model, Graph):
        raise InvalidOptionError("the shape of a graph is bound already", hint="give shape= to hetpart.load")
    with cycles_sought_rarely():
        graph = model if isinstance(model, Graph) else load(model, shape=shape, **example)
        return price(graph, machine, assumptions)
