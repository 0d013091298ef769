"""Where a placement comes from: a rule's name, or a file that names a device for every op."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hetpart.errors import InvalidOptionError
from hetpart.partitioner.search.baselines import BASELINES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from hetpart.graph.ir import Graph, Op
    from hetpart.partitioner.problem import Placement, PlacementProblem

_SHOWN = 3
_FORM = 'write {"op name": "cpu", …}, or give a plan.json or a bundle'


def read_source(
    source: str | PathLike[str] | Mapping[str, str], graph: Graph, problem: PlacementProblem
) -> str | Placement:
    """``source`` as the solver takes it: a rule's name as it is, a file's content as device indices.

    Raises:
        InvalidOptionError: neither a rule nor a file that places every op of ``graph`` where it may run.
    """
    if isinstance(source, Mapping):
        return _placement(source, graph, problem, "the placement")
    text = str(source)
    if text in ("optimal", *BASELINES) or text.startswith("random:"):
        return text
    path = Path(text)
    if path.is_dir():
        path /= "plan.json"
    if not path.is_file():
        raise InvalidOptionError(
            f"{text!r} is neither a placement rule nor a file",
            hint=f"one of optimal, random:SEED, {', '.join(BASELINES)}, or a file: {_FORM}",
        )
    return _placement(_named_devices(path), graph, problem, f"the placement file {path}")


def _placement(named: Mapping[str, Any], graph: Graph, problem: PlacementProblem, where: str) -> Placement:
    placement = _indices(named, graph, problem.devices, where)
    _require_legal(placement, graph, problem, where)
    return placement


def _named_devices(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidOptionError(f"the placement file {path} cannot be read: {error.strerror}", hint=_FORM) from error
    except (ValueError, RecursionError) as error:
        raise InvalidOptionError(f"the placement file {path} is not JSON: {error}", hint=_FORM) from error
    if not isinstance(content, dict):
        raise InvalidOptionError(f"the placement file {path} holds no mapping of ops to devices", hint=_FORM)
    named = cast("dict[str, Any]", content)
    decisions = named.get("decisions")
    if not isinstance(decisions, list):
        return named
    entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", decisions) if isinstance(entry, dict)]
    return {str(entry.get("op")): entry.get("device") for entry in entries}


def _indices(named: Mapping[str, Any], graph: Graph, devices: tuple[str, ...], where: str) -> Placement:
    names = [_name_in(named, op) for op in graph.ops]
    missing = [repr(name) for name in names if name not in named]
    wrong = sorted({repr(device) for device in named.values() if device not in devices})
    hint = f"every op needs one of {', '.join(devices)}; {_FORM}"
    for problem, found in (("places no device for", missing), ("names devices the machine lacks:", wrong)):
        if found:
            raise InvalidOptionError(f"{where} {problem} {_few(found)}", hint=hint)
    return np.array([devices.index(named[name]) for name in names], np.int8)


def _name_in(named: Mapping[str, Any], op: Op) -> str:
    """What ``named`` calls ``op``: where it has not its own name, perhaps that of the op whose body it is from."""
    return op.name if op.name in named or op.origin is None else op.origin.name


def _require_legal(placement: Placement, graph: Graph, problem: PlacementProblem, where: str) -> None:
    legal = problem.legal()[placement, np.arange(problem.ops)]
    wrong = [graph.ops[int(op)] for op in np.flatnonzero(np.logical_not(legal))]
    if wrong:
        named = [f"{op.name!r} ({op.op_type}) on {problem.devices[placement[op.id]]}" for op in wrong]
        raise InvalidOptionError(
            f"{where} puts ops where they cannot run: {_few(named)}",
            hint="there is no kernel there, or a pin, or a fusion with an op that cannot run there, is against it",
        )


def _few(texts: Sequence[str]) -> str:
    """The first of ``texts``, and how many more there are."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
