"""JSON Schemas of what is written as JSON, published as ``docs/plan.schema.json`` and ``docs/diff.schema.json``.

Write them anew after a change of their records with ``python -m hetpart.plan.schema docs``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from hetpart.files import write_whole
from hetpart.plan.differences import DIFF_SCHEMA, DIFF_VERSION, PlanDiff
from hetpart.plan.model import PLAN_SCHEMA, PLAN_VERSION, Plan

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> dict[str, Any]:
    """The JSON Schema every plan of this version obeys. Fields it does not name are of a newer revision, and legal."""
    return _schema(Plan, PLAN_SCHEMA, PLAN_VERSION)


def diff_schema() -> dict[str, Any]:
    """The JSON Schema of what ``hetpart diff --format json`` writes."""
    return _schema(PlanDiff, DIFF_SCHEMA, DIFF_VERSION)


def _schema(record: type, name: str, version: int) -> dict[str, Any]:
    """Of a document that is ``record``, its schema's name and its version."""
    schema = msgspec.json.schema(record)
    described = schema["$defs"][record.__name__]
    described["properties"] |= {"schema": {"const": name}, "version": {"const": version}}
    described["required"] += ["schema", "version"]
    return {"$schema": _DIALECT, "title": f"{name} {version}", **schema}


PUBLISHED = MappingProxyType({"plan.schema.json": plan_schema, "diff.schema.json": diff_schema})
"""By the name of the file in ``docs``."""


def published_schema(file: str = "plan.schema.json") -> str:
    """The text of ``file`` in ``docs``."""
    data = msgspec.json.encode(PUBLISHED[file](), order="sorted")
    return msgspec.json.format(data, indent=2).decode() + "\n"


def main(folder: str) -> None:
    """Write every schema into ``folder``."""
    for file in PUBLISHED:
        write_whole(Path(folder) / file, published_schema(file).encode())


if __name__ == "__main__":
    main(sys.argv[1])
