# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false, reportPrivateUsage=false, reportUnknownArgumentType=false
"""Programs that ``torch.export.save`` wrote, and what of them PyTorch has to know before it can read one."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import sympy
import torch
from torch.utils import _pytree as pytree

from hetpart.errors import InvalidModelError
from hetpart.frontend.assumed import asks_sizes
from hetpart.frontend.caches import know_caches
from hetpart.frontend.calls import target_named
from hetpart.frontend.said import quiet, reason_of

_TARGET = re.compile(r'"target": ?"(torch\.ops\.\w+\.\w+\.\w+)"')
"""How such a file writes which operator a node calls."""
_TYPE = re.compile(r'"type": ?"(\w+(?:\.\w+)+)"')
"""How it writes, as text of JSON within JSON, what the program is given and returns beside tensors."""
_OWN_RULES = "transformers."
"""Its modules say how their results are put together when they are imported."""


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program that ``torch.export.save`` wrote to ``path``.

    Raises:
        InvalidModelError: there is none, or nobody imported what its operators and results are.
    """
    if not path.is_file():
        raise InvalidModelError(f"{path} does not exist", hint="give a file that torch.export.save wrote")
    text = _texts(path)
    _know_results(text)
    try:
        with quiet(logging.CRITICAL):
            program = torch.export.load(path)
    except Exception as error:  # torch raises many kinds for files that are not its own
        raise _refusal(path, text, error) from error
    # PyTorch runs what the file says of its sizes, as Python, when it takes the program apart.
    program._guards_code = list(filter(asks_sizes, program._guards_code or ()))
    _settle_sizes(program)
    return program


def _settle_sizes(program: torch.export.ExportedProgram) -> None:
    """Let sizes as ``2 * Dim("half")`` follow from that one's: read from a file each is one of its own."""
    values = (node.meta.get("val") for node in program.graph.find_nodes(op="placeholder"))
    sizes = (size for value in values if isinstance(value, torch.Tensor) for size in value.shape)
    shapes: Any = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    if shapes is None:
        return
    spans, known = shapes.var_to_range, shapes.backed_var_to_val
    for expression in [size for size in known if not size.is_Symbol]:
        value = known.pop(expression)
        for root in expression.free_symbols - known.keys() if len(expression.free_symbols) == 1 else ():
            known[root] = sympy.solve(expression - value, root)[0]
    for expression in [size for size in spans if not size.is_Symbol]:
        del spans[expression]


def _texts(path: Path) -> str:
    """All JSON of the file."""
    try:
        with ZipFile(path) as archive:
            return "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith(".json"))
    except (OSError, BadZipFile, UnicodeDecodeError):
        return ""


def _know_results(text: str) -> None:
    """Import what says how results of `transformers` are put together, where it is installed."""
    for name in _unknown_types(text):
        if name.startswith(_OWN_RULES):
            with suppress(ImportError):
                import_module(name.rpartition(".")[0])
    know_caches()


def _refusal(path: Path, text: str, error: Exception) -> InvalidModelError:
    operators, types = _unknown_operators(text), _unknown_types(text)
    if operators:
        return InvalidModelError(
            f"{path} calls {', '.join(operators)}, which PyTorch {torch.__version__} does not know",
            hint="import the module that registers it: --import my_ops, or `import my_ops` in Python",
        )
    if types:
        module = types[0].rpartition(".")[0]
        return InvalidModelError(
            f"{path} is given or returns {', '.join(types)}, and nothing says how to put that together",
            hint=f"import the module that registers it with PyTorch's pytree: --import {module}, or in Python",
        )
    return InvalidModelError(
        f"{path} of {path.stat().st_size:,} bytes is no exported program: {reason_of(error)}",
        hint="give a file that torch.export.save wrote, with the same version of PyTorch",
    )


def _unknown_operators(text: str) -> list[str]:
    """Those that PyTorch does not know, as ``ns::op.overload``."""
    targets = sorted(set(_TARGET.findall(text)))
    names = (target.removeprefix("torch.ops.").replace(".", "::", 1) for target in targets)
    return [name.removesuffix(".default") for name in names if target_named(name) is None]


def _unknown_types(text: str) -> list[str]:
    """Those that PyTorch cannot put together."""
    return sorted(set(_TYPE.findall(text.replace("\\", ""))) - pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.keys())
