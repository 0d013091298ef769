# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""From an exported program to ONNX operators: the second half of the one road, around what is known to go wrong there.

PyTorch's exporter runs with ``optimize=False``: its optimiser takes additions of constants up to 1e-8 for additions of
nothing, and an optimiser's step then divides by zero.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import ConstantArgument, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg

from hetpart.errors import HetpartError, InvalidModelError
from hetpart.frontend.bodies import NEVER_TRANSLATED, run_by_pytorch
from hetpart.frontend.branches import with_both_branches
from hetpart.frontend.casts import settle_casts
from hetpart.frontend.changed import require_same_memory, require_unchanged
from hetpart.frontend.checks import with_checks
from hetpart.frontend.doubles import exact_numbers, has_doubles, widen
from hetpart.frontend.higher import RUN
from hetpart.frontend.kept import apart, graphs_of, keep, kept, name_views, own_names, parts_of, restore, wrong_in
from hetpart.frontend.misfits import has_misfits_inside, misfits
from hetpart.frontend.missing import taken_apart_once
from hetpart.frontend.mixed import require_one_type
from hetpart.frontend.mutating import without_mutating
from hetpart.frontend.refused import causes, refusal
from hetpart.frontend.registry import parsed_once
from hetpart.frontend.returned import with_all_returned
from hetpart.frontend.settled import (
    settle_axes,
    settle_indices,
    settle_names,
    settle_reductions,
    settle_signs,
    settle_types,
)
from hetpart.frontend.sought import require_some
from hetpart.frontend.tracers import unwound
from hetpart.frontend.translations import TRANSLATIONS
from hetpart.frontend.untranslated import (
    Translations,
    called_inside,
    complex_too,
    failed_at,
    left_to_pytorch,
    own_operators,
    tell_calls,
)
from hetpart.frontend.viewed import freely_viewed, lies_otherwise, taking_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch._ops import OpOverload
    from torch.onnx import ONNXProgram

_ROUNDS = 3
"""What stays PyTorch's may leave another node with types that do not go together."""


@dataclass(frozen=True, slots=True, eq=False)
class Translated:
    """A program in ONNX operators, and what it went through."""

    made: ONNXProgram
    """Not optimised; its program is the one that its nodes are named by."""
    called: torch.export.ExportedProgram
    """What says how the program is called, what it returns and what it changes."""
    given: torch.export.ExportedProgram
    """What went to the exporter: all that the program computes is among its results."""
    notes: tuple[str, ...]
    """What the user should know of it."""


def translated(program: torch.export.ExportedProgram, name: str) -> Translated:
    """``program`` in ONNX operators.

    Raises:
        InvalidModelError: the program changes its own weights or buffers, or an operator without translation is where
            PyTorch cannot run it.
    """
    try:
        return _once_translated(program, name)
    except InvalidModelError as error:
        if error.__cause__ is None:
            raise
        # The exporter takes no loops in loops, nor tensors that the code of a branch or a loop makes of numbers.
        freed = run_by_pytorch(program, RUN, name)
        if freed is program:
            raise
    return _once_translated(freed, name)


def _once_translated(program: torch.export.ExportedProgram, name: str) -> Translated:
    try:
        with unwound():
            return _translated(program, name)
    except HetpartError:
        raise
    except Exception as error:  # what PyTorch raises where it takes a program apart
        raise refusal(name, error) from error


def _translated(program: torch.export.ExportedProgram, name: str) -> Translated:
    require_same_memory(program, name)
    require_one_type(program, name)
    require_some(program, name)
    settle_casts(program)
    settle_signs(program)
    called = _without_wrong(with_checks(without_mutating(program, name)), name)
    called = run_by_pytorch(called, NEVER_TRANSLATED, name)
    given = with_all_returned(called)
    made = _in_onnx(given, name)
    for freed in (with_both_branches, partial(run_by_pytorch, names=RUN, name=name)):
        if called_inside(made) or has_misfits_inside(made.model):
            called = freed(called)
            given = with_all_returned(called)
            made = _in_onnx(given, name)
    changes = _decomposed(made).graph_signature
    require_unchanged(changes, name)
    if any(spec.kind is OutputKind.USER_INPUT_MUTATION for spec in changes.output_specs):
        with taking_apart():
            called = called.run_decompositions({})  # only then does its signature say what it changes
        called = _without_wrong(called, name)
        given = with_all_returned(called)
        made = _in_onnx(given, name)
    _require_whole(made, given, name)
    return Translated(made, called, given, tell_calls(made, name))


def _in_onnx(program: torch.export.ExportedProgram, name: str) -> ONNXProgram:
    """The exporter's own translation, and a node that PyTorch runs for every operator that it has no right one of."""
    ours = own_operators(program)  # known to have no translation: an export that fails at each of them takes as long
    with kept(program) as targets:
        made = _exported(program, name, _left(targets | ours, program))
        if keep(program, misfits(made.model)):
            made = _exported(program, name, _left(own_names(program) | ours, program))
    for _ in range(_ROUNDS):
        before = _decomposed(made)
        name_views(before)
        again = _without_wrong(before, name)
        wrong = wrong_in(again) | (misfits(made.model) if again is before else set[str]())
        if not keep(again, wrong) and again is before:
            break
        try:
            made = _exported(again, name, _left(own_names(again) | ours, again))
        except InvalidModelError:  # some parts do not go through twice: whoever loads the first one says what is wrong
            break
    restore(_decomposed(made))
    settle_names(made.model, _decomposed(made))
    settle_types(made.model, program)
    return made


def _left(targets: Iterable[OpOverload], program: torch.export.ExportedProgram) -> Translations:
    return {target: left_to_pytorch(target, program) for target in targets}


def _exported(program: torch.export.ExportedProgram, name: str, left: Translations) -> ONNXProgram:
    numbers = exact_numbers if has_doubles(program) else nullcontext
    missing: set[OpOverload] = set()
    _forget_pending(program)
    # Where gradients are recorded, attention takes other kernels than in the trace, whose results lie otherwise: the
    # views that were traced of them fail.
    with taking_apart(), torch.no_grad(), parsed_once(), numbers(), taken_apart_once(missing):
        while True:
            try:
                made = _with_translations(program, left)
                break
            except Exception as error:  # torch.onnx raises what its translations raise
                target = failed_at(list(causes(error)))
                if target is None or target in left:
                    raise refusal(name, error) from error
                left |= _left({target} | missing - left.keys(), program)
    if numbers is exact_numbers:
        widen(made.model)
    settle_indices(made.model)
    settle_axes(made.model, _decomposed(made))
    settle_reductions(made.model)
    return made


def _with_translations(program: torch.export.ExportedProgram, left: Translations) -> ONNXProgram:
    with complex_too(left):
        made = torch.onnx.export(
            program, dynamo=True, optimize=False, verbose=False, custom_translation_table={**TRANSLATIONS, **left}
        )
    assert made is not None
    return made


def _forget_pending(program: torch.export.ExportedProgram) -> None:
    """Forget sizes that an attempt before made and that nothing has: PyTorch looks for them in the next one."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    modes = {id(value.fake_mode): value.fake_mode for value in values if isinstance(value, FakeTensor)}
    for mode in modes.values():
        if mode.shape_env is not None:
            mode.shape_env.pending_fresh_unbacked_symbols.clear()


def _decomposed(made: ONNXProgram) -> torch.export.ExportedProgram:
    assert made.exported_program is not None
    return made.exported_program


def _without_wrong(program: torch.export.ExportedProgram, name: str) -> torch.export.ExportedProgram:
    """``program`` with what goes wrong whole in parts."""
    try:
        return _in_parts(program, name)
    except ValueError as error:
        if not lies_otherwise(error):
            raise
    with freely_viewed(program) as free:
        return _in_parts(free, name)


def _in_parts(program: torch.export.ExportedProgram, name: str) -> torch.export.ExportedProgram:
    parts: dict[Any, Any] = dict(parts_of(program))
    if not parts:
        return program
    before = own_names(program)
    _forget_pending(program)
    with taking_apart(), apart(program):
        try:
            made = program.run_decompositions(parts)
        except GuardOnDataDependentSymNode as error:
            raise refusal(name, error) from error
    restore(made, before)
    return program if _calls_of(made) == _calls_of(program) else made


def _calls_of(program: torch.export.ExportedProgram) -> list[tuple[Any, ...]]:
    """What it calls, with what: names aside, which PyTorch gives anew whenever it looks for what to take apart."""
    return [call for module in graphs_of(program) for call in _calls_in(module.graph)]


def _calls_in(graph: torch.fx.Graph) -> Iterator[tuple[Any, ...]]:
    place = {node: number for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        yield node.op, node.target, *map_arg((node.args, node.kwargs), lambda read: ("node", place[read]))


def _require_whole(made: ONNXProgram, program: torch.export.ExportedProgram, name: str) -> None:
    """That the model returns as many values as the program: less would be another model."""
    wanted = [spec for spec in program.graph_signature.output_specs if not isinstance(spec.arg, ConstantArgument)]
    found = list(made.model.graph.outputs)
    if not wanted:
        raise InvalidModelError(
            f"{name} returns no tensor, so there is nothing to compute", hint="return what it is to compute"
        )
    if len(found) != len(wanted):
        raise InvalidModelError(
            f"{name} returns {len(wanted)} values, and {len(found)} once it is in ONNX operators",
            hint="report it with the module: it is a fault of the exporter or of hetpart",
        )
