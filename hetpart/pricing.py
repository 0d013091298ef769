"""Model → graph → costs: as far as it goes without placing anything, nor importing what places."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from hetpart.config import ShapeOption, parse_shapes
from hetpart.cost_model.annotate import annotate as price
from hetpart.cost_model.assumptions import AccessOption, TripOption, parse_assumptions
from hetpart.cost_model.kernels import runs_as_body
from hetpart.cost_model.machines import load_machine
from hetpart.errors import InvalidOptionError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from hetpart.cost_model.annotate import Costs


def load(model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model, *, shape: ShapeOption = None) -> Graph:
    """The graph of ``model`` as hetpart sees it: dimensions bound, shape arithmetic folded, no weight read.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
    """
    return import_onnx(model, parse_shapes(shape), runs_as_body).graph


def annotate(
    model: str | PathLike[str] | onnx.ModelProto | onnx_ir.Model | Graph,
    *,
    hardware: str | PathLike[str] | None = None,
    shape: ShapeOption = None,
    threads: int = 0,
    trip_count: TripOption = None,
    access: AccessOption = None,
) -> Costs:
    """What every op of ``model`` costs on every device of ``hardware``, and why. ``ops[i]`` is op ``i`` of ``load``.

    A graph that ``load`` gave is taken as it is. ``trip_count`` and ``access`` are those of ``partition``.

    Raises:
        InvalidModelError: The model cannot be read.
        UnboundDimensionsError: A dimension has no number.
        InvalidOptionError: The hardware is unknown, or an option cannot be understood.
    """
    assumptions = parse_assumptions(trip_count, access)
    machine = load_machine(hardware, threads=threads)
    if not isinstance(model, Graph):
        model = load(model, shape=shape)
    elif shape:
        raise InvalidOptionError("the shape of a graph is bound already", hint="give shape= to hetpart.load")
    return price(model, machine, assumptions)
