# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportMissingTypeStubs=false
"""What a program takes for granted of the sizes that differ from call to call.

Code that branches on a size goes the way of the example, and so does what takes an operator apart: the windows of an
adaptive pool are laid over the example's size. PyTorch notes every such decision as a guard, and looks at those of a
trace before a call; at those of its decompositions and of its exporter to ONNX nobody looks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ShapeGuard, free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._sympy.printers import PythonPrinter

from hetpart.frontend.sought import asked_sizes, open_among


def _chosen(choice: Callable[[Any, Any], Any], *sizes: Any) -> Any:
    return reduce(choice, sizes)


_traced: WeakKeyDictionary[ShapeEnv, int] = WeakKeyDictionary()
"""How many guards were there when hetpart first saw a program: translating it adds others."""
_GIVEN = "L"
"""What PyTorch calls the arguments in the code of guards."""
_SIZES = frozenset({"ndim", "shape", "size", "storage_offset", "stride"})
"""What the code of a guard asks of a tensor."""
_SQUEEZES = frozenset(
    getattr(called, kind)
    for called in (torch.ops.aten.squeeze, torch.ops.aten.squeeze_)
    for kind in ("default", "dim", "dims")
)
_CHOICES: dict[str, Any] = {"max": partial(_chosen, torch.sym_max), "min": partial(_chosen, torch.sym_min)}
"""In guards. Python's own ask which of two sizes is the larger, which PyTorch notes as a guard of its own."""
_known: dict[str, Any] = symbolic_shapes.SYMPY_INTERP
_known.update(_CHOICES)  # PyTorch runs a program's guards whenever it takes the program apart
_OPERATORS = (ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.Load)
_PLAIN = (ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.Subscript, *_OPERATORS)


@dataclass(frozen=True, slots=True, eq=False)
class Assumed:
    """Conditions on sizes and numbers, each of which holds in the example."""

    guards: Sequence[Any] = ()
    """As SymPy's booleans."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the symbols in them are called."""

    def named(self, names: Mapping[str, str]) -> Assumed:
        """The same with ``names`` for the symbols."""
        return Assumed(self.guards, names)

    def given(self, sizes: Mapping[str, int]) -> Assumed:
        """What is left to be asked where ``sizes`` are known, by name; what does not hold stays."""
        known = {self.at(guard, sizes): None for guard in self.guards}
        return Assumed([guard for guard in known if guard != True], self.names)  # noqa: E712 - SymPy's

    def broken(self, sizes: Mapping[str, int]) -> str:
        """The first condition that does not hold at ``sizes``, as Python; nothing where all do, or may."""
        for guard in self.guards:
            if self.at(guard, sizes) == False:  # noqa: E712 - SymPy's
                return written(self._named(guard))
        return ""

    def at(self, size: Any, sizes: Mapping[str, int]) -> Any:
        """``size``, or a condition, where ``sizes`` are known, by name."""
        return size.xreplace(self._values(size, sizes))

    def _values(self, guard: Any, sizes: Mapping[str, int]) -> dict[Any, Any]:
        named = {symbol: self.called(symbol) for symbol in guard.free_symbols}
        return {symbol: sympy.Integer(sizes[name]) for symbol, name in named.items() if name in sizes}

    def _named(self, guard: Any) -> Any:
        return guard.xreplace({one: sympy.Symbol(self.called(one), integer=True) for one in guard.free_symbols})

    def called(self, symbol: Any) -> str:
        """What ``symbol`` is called."""
        return self.names.get(str(symbol), str(symbol))


class _Printer(PythonPrinter):
    """Without PyTorch's own functions, as sizes of a run are plain numbers."""

    def _print_ToFloat(self, expr: Any) -> str:  # noqa: N802 - SymPy looks for the name
        return f"float({self._print(expr.args[0])})"


def written(condition: Any) -> str:
    """SymPy's ``condition`` as Python."""
    return _Printer().doprint(condition)


def asks_sizes(code: str) -> bool:
    """Whether ``code`` of a guard does nothing but compare numbers and sizes of arguments."""
    try:
        return all(map(_is_plain, ast.walk(ast.parse(code, mode="eval"))))
    except SyntaxError:
        return False


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id == _GIVEN or node.id in _CHOICES
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZES
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute | ast.Name)  # of the names above
    return isinstance(node, _PLAIN)


def traced_in(program: torch.export.ExportedProgram) -> Assumed:
    """What was found out of sizes before hetpart saw ``program`` first: its own code, which cannot be traced again."""
    whole = assumed_in(program)
    for env in _environments(program):
        _traced.setdefault(env, len(env.guards))
    later = {_settled(guard, env) for env in _environments(program) for guard in env.guards[_traced[env] :]}
    return Assumed([guard for guard in whole.guards if guard not in later])


def assumed_in(program: torch.export.ExportedProgram) -> Assumed:
    """What was found out of sizes while ``program`` was made, and in all that was made of it since."""
    given = _arguments(program)
    for code in getattr(program, "_guards_code", None) or ():
        with suppress(Exception):  # what is read from a file has its guards as code alone: asking notes them again
            bool(eval(code, {_GIVEN: given, **_CHOICES}))
    found: dict[Any, None] = {}
    for env in _environments(program):
        found |= {_settled(guard, env): None for guard in env.guards}
    found |= {sympy.Ne(size, 1): None for size in _squeezed(program) if sympy.Eq(size, 1) not in found}
    found |= {sympy.Ne(size, 0, evaluate=False): None for size in asked_sizes(program)}  # to SymPy none is 0
    return Assumed([guard for guard in found if guard != True])  # noqa: E712 - SymPy's


def _squeezed(program: torch.export.ExportedProgram) -> Iterator[Any]:
    """Sizes that are squeezed, if they are 1: PyTorch takes for granted that they are not, without a note."""
    for node in program.graph.nodes:
        if node.target in _SQUEEZES:
            squeezed = node.args[0].meta["val"]
            yield from (
                size.node.expr for size in open_among(squeezed, *node.args[1:]) if not free_unbacked_symbols(size)
            )


def _settled(guard: ShapeGuard, env: ShapeEnv) -> Any:
    """The condition in symbols that no others stand for."""
    replaced = dict(env.replacements)
    return guard.expr.xreplace(replaced).xreplace(replaced)


def argument_names(program: torch.export.ExportedProgram) -> Sequence[str]:
    """What its module calls its arguments, those by position first; nothing where the program does not know."""
    calls = program.module_call_graph
    signature = calls[0].signature if calls else None
    return () if signature is None else tuple(signature.forward_arg_names or ())


def _arguments(program: torch.export.ExportedProgram) -> dict[str, Any]:
    """What the trace knows of the arguments, by name."""
    names, spec = argument_names(program), program.call_spec.in_spec
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    flat = [values.get(name) for name in program.graph_signature.user_inputs if isinstance(name, str)]
    if spec is None or spec.num_leaves != len(flat):
        return {}
    args, kwargs = pytree.tree_unflatten(flat, spec)
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _environments(program: torch.export.ExportedProgram) -> Iterator[ShapeEnv]:
    """Where PyTorch notes what it finds out of the sizes in ``program``: one place, as a rule."""
    values = pytree.tree_leaves([node.meta.get("val") for node in program.graph.nodes])
    modes = {id(value.fake_mode): value.fake_mode for value in values if isinstance(value, FakeTensor)}
    found = [mode.shape_env for mode in modes.values()]
    found += [value.node.shape_env for value in values if isinstance(value, torch.SymInt)]
    return iter({id(env): env for env in found if env is not None}.values())
