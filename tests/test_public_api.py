from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hetpart

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "scipy", "networkx", "rich", "msgspec", "jinja2")


def loaded_by(code: str) -> set[str]:
    """Modules that a new interpreter has loaded after running ``code``."""
    script = f"import sys\n{code}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def facade() -> ast.Module:
    return ast.parse((ROOT / "hetpart" / "__init__.py").read_text())


@pytest.mark.parametrize("name", hetpart.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hetpart, name) is not None
    assert name in dir(hetpart)


def test_what_type_checkers_see_is_what_is_exported() -> None:
    declared = {
        alias.asname or alias.name
        for node in ast.walk(facade())
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hetpart")
        for alias in node.names
    }
    assert declared | {"__version__"} == set(hetpart.__all__)


def test_every_error_is_public() -> None:
    from hetpart import errors

    defined = {name for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, Exception)}
    assert defined <= set(hetpart.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'partitoin'"):
        _ = hetpart.partitoin


def test_the_version_is_the_packages() -> None:
    assert hetpart.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize("code", ["import hetpart", "import hetpart.cli"])
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) & set(HEAVY) == set()


def test_help_loads_nothing_heavy() -> None:
    code = "from hetpart.cli import main\ntry: main(['partition', '--help'])\nexcept SystemExit: pass"
    assert loaded_by(code) & set(HEAVY) == set()


def test_public_names_load_only_what_they_need() -> None:
    assert loaded_by("from hetpart import HetpartError, Plan") & set(HEAVY) == set()
