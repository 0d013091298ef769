"""JSON Schema of ``plan.json``, published as ``docs/plan.schema.json``.

Write it anew after a change of ``plan.model`` with ``python -m hetpart.plan.schema > docs/plan.schema.json``.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from hetpart.plan.model import PLAN_SCHEMA, PLAN_VERSION, Plan

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> dict[str, Any]:
    """The JSON Schema every plan of this version obeys. Fields it does not name are of a newer revision, and legal."""
    schema = msgspec.json.schema(Plan)
    properties = schema["$defs"]["Plan"]["properties"]
    properties["schema"] = {"const": PLAN_SCHEMA}
    properties["version"] = {"const": PLAN_VERSION}
    schema["$defs"]["Plan"]["required"] += ["schema", "version"]
    return {"$schema": _DIALECT, "title": f"{PLAN_SCHEMA} {PLAN_VERSION}", **schema}


def published_schema() -> str:
    """The text of ``docs/plan.schema.json``."""
    data = msgspec.json.encode(plan_schema(), order="sorted")
    return msgspec.json.format(data, indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(published_schema())
