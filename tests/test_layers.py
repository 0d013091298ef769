"""Each layer imports only layers below it, whether at the top of a file, in a function or for the type checker."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "hetpart"
LAYERS = (
    ("errors", "files", "garbage"),
    ("project",),
    ("kinds", "settings", "units"),
    ("rates",),
    ("devices",),
    ("config", "graph"),
    ("budgets",),
    ("constraints",),
    ("cost_model",),
    ("frontend",),
    ("pricing",),
    ("plan",),
    ("partitioner", "runtime", "report", "linter"),
    ("request", "pytorch"),
    ("partitioned",),
    ("compiler", "terminal"),
    ("whatif", "dynamo"),
    ("calibration",),
    ("training",),
    ("cli",),
    ("__main__",),
)
"""Lowest first. Parts that share a row never import each other."""
ROOMS = (
    ("problem", "pins"),
    ("scores",),
    ("bounds",),
    ("search",),
    ("formulate",),
    ("colocate", "source", "streamable"),
    ("timeline",),
    ("assembly",),
    ("counterfactual", "fewer", "overlap", "place", "tradeoff"),
)
"""The same within the partitioner."""
RANKS = {part: rank for rank, row in enumerate(LAYERS) for part in row}
ROOM_RANKS = {room: rank for rank, row in enumerate(ROOMS) for room in row}
FACADE = "__init__"
"""``hetpart/__init__.py`` names the public API and may import any part."""


def _part(file: Path) -> str:
    """The layer's name of a source file, or of the package it lies in."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_parts(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, part) for every import from hetpart; ``package`` is where the file lies, for relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _parts_of(node.lineno, alias.name.split("."), [])
        elif isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            module = node.module.split(".") if node.module else []
            yield from _parts_of(node.lineno, above + module, [alias.name for alias in node.names])


def _parts_of(line: int, module: list[str], names: list[str]) -> Iterator[tuple[int, str]]:
    if module[0] != PACKAGE.name:
        return
    if module[1:]:
        yield line, module[1]
        return
    yield from ((line, name if name in RANKS else FACADE) for name in names or [FACADE] if name != "__version__")


def violations(source: str, file: Path) -> list[str]:
    """What ``source`` imports against the order, were it the content of ``file``."""
    own = _part(file)
    package = (PACKAGE.name, *file.relative_to(PACKAGE).parent.parts)
    return [
        f"{file.relative_to(PACKAGE.parent)}:{line}: {own} imports {part}"
        for line, part in _imported_parts(ast.parse(source), package)
        if part != own and RANKS.get(part, len(LAYERS)) >= RANKS[own]
    ]


FILES = sorted(file for file in PACKAGE.rglob("*.py") if _part(file) != FACADE)


def test_every_part_has_a_layer() -> None:
    assert FILES
    assert sorted({_part(file) for file in FILES} - set(RANKS)) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down(file: Path) -> None:
    assert violations(file.read_text(), file) == []


@pytest.mark.parametrize(
    "source",
    [
        "import hetpart.partitioner.scores.cut",
        "from hetpart.partitioner import cut",
        "from hetpart import partitioner",
        "from hetpart import partition",
        "import hetpart",
        "from ..compiler import partition",
        "def late():\n    from hetpart.report.text import draw",
        "if TYPE_CHECKING:\n    from hetpart.cli import main",
    ],
)
def test_an_import_upwards_is_found(source: str) -> None:
    assert len(violations(source, PACKAGE / "runtime" / "session.py")) == 1


@pytest.mark.parametrize(
    "source",
    ["from hetpart.plan.model import Plan", "from . import events", "from .events import Ran", "from ..plan import io"],
)
def test_an_import_downwards_is_legal(source: str) -> None:
    assert violations(source, PACKAGE / "runtime" / "session.py") == []
