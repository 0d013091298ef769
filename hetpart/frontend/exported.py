# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A PyTorch model as the rest of hetpart reads models, and what leads back from there to PyTorch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
import torch

from hetpart.errors import HetpartError, InvalidModelError, InvalidOptionError
from hetpart.frontend.asked import may_be_fixed
from hetpart.frontend.assumed import Assumed, assumed_in, traced_in
from hetpart.frontend.autocast import Around, off
from hetpart.frontend.capture import Captured, captured
from hetpart.frontend.dimensions import (
    Dimensions,
    dimensions_of,
    name_dimensions,
    names_in,
    open_symbols,
)
from hetpart.frontend.example import Example, Openness
from hetpart.frontend.model import ExportedModel
from hetpart.frontend.pinned_code import without_notes
from hetpart.frontend.pins import device_of, pinned_in, warn_of_unfollowed
from hetpart.frontend.prefixes import called_as
from hetpart.frontend.resized import example_of, resized
from hetpart.frontend.safetensors import StoredWeights, stored_weights
from hetpart.frontend.translate import translated
from hetpart.frontend.weights import HeldWeights, has_content, note_of_unread, settle_weights
from hetpart.graph.load import LoadedModel
from hetpart.graph.provenance import FX_NODE, PIN, STACK_LINE, STACK_TRACE, scope_of
from hetpart.graph.walk import all_nodes
from hetpart.units import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NO_EXAMPLE = Example()
_UNREAD = ("namespace", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.input_names")
"""Metadata that nothing here reads, a kilobyte for every node."""


def exported(model: object, example: Example) -> ExportedModel:
    """The one road of every PyTorch model.

    Raises:
        InvalidModelError: it cannot be exported.
        InvalidOptionError: its arguments are missing.
    """
    try:
        return _exported(model, example)
    except InvalidModelError:
        for looser in _loosened(model, example):
            with suppress(InvalidModelError):
                return _exported(model, looser)
        raise


def _loosened(model: object, example: Example) -> Iterator[Example]:
    """``example`` with fewer axes open, where code may be that has them at one size alone."""
    if isinstance(model, torch.nn.Module) and may_be_fixed(model, example):
        yield from (replace(example, openness=how) for how in (Openness.FOUND, Openness.NONE))


def _exported(model: object, example: Example) -> ExportedModel:
    around = Around.now()
    if around.entered and not isinstance(model, torch.nn.Module):
        raise InvalidModelError(
            f"torch.autocast is on for {around.entered[0][0]} where a program is planned that was exported before",
            hint="plan it outside of torch.autocast, or give the module itself, whose code is exported with it",
        )
    found = captured(model, example)
    traced = traced_in(found.program)
    made = exported_from(found, example)
    known = dimensions_of(made.original, found.asked)
    again = partial(_again, found, example, known, traced, around)
    return replace(made, assumed=assumed_in(found.program).named(names_in(found.program, known)), again=again)


def _again(
    found: Captured, example: Example, known: Dimensions, traced: Assumed, around: Around, sizes: Mapping[str, int]
) -> ExportedModel:
    """``found`` exported at other sizes than those of its example, whose trace took ``traced`` for granted."""
    with around.again():
        return _at_sizes(found, example, known, traced, sizes)


def _at_sizes(
    found: Captured, example: Example, known: Dimensions, traced: Assumed, sizes: Mapping[str, int]
) -> ExportedModel:
    if isinstance(found.source, torch.nn.Module):
        other = resized(found.program, example, known, sizes)
        return exported(found.source, replace(other, openness=Openness.REQUIRED))
    broken = traced.named(names_in(found.program, known)).broken(sizes)
    if broken:
        raise InvalidModelError(f"its code may go another way where not {broken}")
    other = example_of(found.program, known, sizes)
    again = captured(found.program.module(check_guards=False), other)
    made = exported_from(replace(found, program=again.program, asked=again.asked), example)
    names = names_in(again.program, dimensions_of(made.original, again.asked))
    return replace(made, assumed=assumed_in(again.program).named(names))


def sized(made: ExportedModel, sizes: Mapping[str, int]) -> ExportedModel:
    """``made`` or, where it takes for granted what does not hold at ``sizes``, the same exported again for them.

    Raises:
        InvalidOptionError: that cannot be.
    """
    known = {**made.loaded.sizes, **{name: size for name, size in sizes.items() if size != OPEN}}
    within = _are_within(made.loaded.ranges, known)
    broken = "" if made.assumed is None else made.assumed.broken(known)
    is_code = isinstance(made.source, torch.nn.Module)  # of a program the ranges are what its code branched by
    if made.again is None or (within and not broken) or (not within and not is_code):
        return made
    try:
        again = made.again(known)
    except HetpartError as error:
        broken = broken or _only(made.loaded.ranges, known)
        if not within and not broken:  # whoever binds the sizes says so
            return made
        raise _not_for(made, sizes, broken, error.message) from error
    if again.assumed is not None and again.assumed.broken(known):
        raise _not_for(made, sizes, broken, "it takes so for granted at those sizes too")
    return replace(again, source=made.source, pinned=made.pinned)


def _not_for(made: ExportedModel, sizes: Mapping[str, int], broken: str, why: str) -> InvalidOptionError:
    asked = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return InvalidOptionError(
        f"{made.loaded.name} cannot be planned for {asked}: it was exported for sizes where {broken}; {why}",
        hint="export it with example arguments of those sizes",
    )


def _only(ranges: Mapping[str, tuple[int, int | None]], sizes: Mapping[str, int]) -> str:
    """The first of ``sizes`` that can be one number alone, which it is not."""
    stuck = (f"{name} == {least}" for name, (least, most) in ranges.items() if least == most != sizes.get(name, least))
    return next(stuck, "")


def _are_within(ranges: Mapping[str, tuple[int, int | None]], sizes: Mapping[str, int]) -> bool:
    spans = ((size, *ranges.get(name, (0, None))) for name, size in sizes.items())
    return all(least <= size <= (size if most is None else most) for size, least, most in spans)


def exported_from(found: Captured, example: Example = NO_EXAMPLE) -> ExportedModel:
    """The same of a program that is captured already.

    Raises:
        InvalidModelError: it cannot be put in ONNX operators.
    """
    with without_notes(), off():
        done = translated(found.program, found.name)
    made = done.made
    assert made.exported_program is not None
    stored, renamed = None, ""
    if example.weights is not None:
        stored, renamed = called_as(stored_weights(example.weights), _state(found), found.tied, found.name)
    extents = None if stored is None else stored.extents
    held = settle_weights(made.model, found.name, extents, _state(found), found.tied, _hint_of_lost(found, example))
    _note(made.model)
    known = dimensions_of(done.given, found.asked)
    notes = (*_notes_of_fixed(known), *done.notes, *filter(None, [renamed]), *note_of_unread(held))
    found = replace(found, notes=(*found.notes, *notes))
    loaded = _loaded(ir.to_proto(made.model), found, known, held, stored)
    return ExportedModel(
        loaded,
        made.exported_program,
        done.called,
        held,
        found.source,
        pinned=pinned_in(found.source),
        tied=found.tied,
        stored=stored,
    )


def _notes_of_fixed(known: Dimensions) -> Iterator[str]:
    for name in dict.fromkeys(known.fixed.values()):
        yield (
            f"{name} is {known.sizes[name]} throughout, as the model's code makes a number of it:"
            f" shape='{name}=SIZE' exports it again for another size"
        )


def _hint_of_lost(found: Captured, example: Example) -> str:
    """What to do where ``found`` is a program without content, which does not say what its module would."""
    if isinstance(found.source, torch.nn.Module) or all(map(has_content, found.program.state_dict.values())):
        return ""
    stacks = (node.meta.get("nn_module_stack") for node in found.program.graph.nodes)
    path = next((str(next(iter(stack.values()))[1]) for stack in stacks if stack), "Model")
    is_known = path.startswith("transformers.")
    config = f"transformers.AutoConfig.from_pretrained({str(example.weights)!r})" if is_known else "…"
    made = f"{'transformers.' if is_known else ''}{path.rpartition('.')[2]}({config}).eval()"
    return (
        "a program without weights keeps neither which of them are tied nor buffers that follow from the configuration."
        f" Give the module, in Python:\nwith torch.device('meta'): model = {made}\n"
        f"hetpart.partition(model, kwargs={{…}}, weights={str(example.weights)!r})"
    )


def _state(found: Captured) -> set[str]:
    """Names that files of the model have.

    Of a GraphModule those of its parameters alone: tracing makes buffers of constants, and persistent ones of all.
    """
    if isinstance(found.source, torch.fx.GraphModule):
        return {name for name, _ in found.source.named_parameters(remove_duplicate=False)}
    return set(found.program.state_dict)


def marked(exported: ExportedModel, *, again: bool) -> ExportedModel:
    """``exported`` for a plan, with the marks on its modules of when it was exported; ``again``, with those since."""
    warn_of_unfollowed(exported.source, {scope_of(node) for node in _nodes(exported.loaded.proto)})
    return pinned_as(exported, {**exported.pinned, **(pinned_in(exported.source) if again else {})})


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return chain(all_nodes(proto.graph.node), *(function.node for function in proto.functions))


def pinned_as(exported: ExportedModel, pinned: dict[str, str]) -> ExportedModel:
    """``exported`` with the modules at the paths in ``pinned`` on their devices; pins in their code stay."""
    if not pinned:
        return exported
    proto = onnx.ModelProto()
    proto.CopyFrom(exported.loaded.proto)
    for node in _nodes(proto):
        device = device_of(None, scope_of(node), pinned)
        if device and all(entry.key != PIN for entry in node.metadata_props):
            node.metadata_props.add(key=PIN, value=device)
    return replace(exported, loaded=replace(exported.loaded, proto=proto))


def _loaded(
    proto: onnx.ModelProto, found: Captured, known: Dimensions, held: HeldWeights, stored: StoredWeights | None
) -> LoadedModel:
    name_dimensions(proto, known)
    unbound = open_symbols(proto)
    proto.graph.name = found.name
    return LoadedModel(
        proto=proto,
        name=found.name,
        path=found.path,
        folder=None if stored is None else stored.folder,
        weights_apart=bool(held.nbytes),
        sizes={name: size for name, size in known.sizes.items() if name in unbound},
        ranges=known.ranges,
        notes=found.notes,
    )


def _note(model: ir.Model) -> None:
    """Leave to every node what says where it comes from, and add where its code pins it."""
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    for node in (node for graph in graphs for node in ir.traversal.RecursiveGraphIterator(graph)):
        props = node.metadata_props
        for key in _UNREAD:
            props.pop(key, None)
        if STACK_TRACE in props:
            frames = STACK_LINE.findall(props[STACK_TRACE])
            props[STACK_TRACE] = "\n".join('File "{}", line {}, in {}'.format(*frame) for frame in frames)
        if FX_NODE in props:
            props[FX_NODE] = props[FX_NODE].partition("](")[0] + "]"
        traced = node.meta.get("node")
        device = "" if traced is None else device_of(traced.meta.get("custom"), "", {})
        if device:
            props[PIN] = device
