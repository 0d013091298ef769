"""The rules, a module a family."""

from __future__ import annotations


def enter_all() -> None:
    """Import every family, which enters its rules."""
    from hetpart.linter.rules import costs, devices, files, graph, memory, numerics, plan, shapes

    del costs, devices, files, graph, memory, numerics, plan, shapes
