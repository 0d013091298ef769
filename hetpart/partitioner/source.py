"""Where a placement comes from: a rule's name, or a file that names a device for every op."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hetpart.errors import InvalidOptionError
from hetpart.partitioner.baselines import BASELINES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from hetpart.graph.ir import Graph
    from hetpart.partitioner.problem import Placement

_SHOWN = 3
_FORM = 'write {"op name": "cpu", …}, or give a plan.json or a bundle'


def read_source(source: str | PathLike[str], graph: Graph, devices: tuple[str, ...]) -> str | Placement:
    """``source`` as the solver takes it: a rule's name as it is, a file's content as device indices.

    Raises:
        InvalidOptionError: neither a rule nor a file that places every op of ``graph``.
    """
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
    return _indices(_named_devices(path), graph, devices, path)


def _named_devices(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
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


def _indices(named: Mapping[str, Any], graph: Graph, devices: tuple[str, ...], path: Path) -> Placement:
    missing = [op.name for op in graph.ops if op.name not in named]
    wrong = sorted({str(device) for device in named.values() if device not in devices})
    for problem, found in (("places no device for", missing), ("names devices the machine lacks:", wrong)):
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise InvalidOptionError(
                f"the placement file {path} {problem} {', '.join(map(repr, found[:_SHOWN]))}{more}",
                hint=f"every op needs one of {', '.join(devices)}; {_FORM}",
            )
    return np.array([devices.index(named[op.name]) for op in graph.ops], np.int8)
