# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false
"""A program as one whose results are all the caller's: PyTorch's ONNX exporter leaves out the others.

Only its end is written anew. Its operators stay as they were traced, with the modules and pins of then.
"""

from __future__ import annotations

from dataclasses import replace

from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, OutputKind, OutputSpec
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

_GIVEN_BACK = frozenset({OutputKind.USER_OUTPUT, OutputKind.TOKEN})


def with_all_returned(program: ExportedProgram) -> ExportedProgram:
    """``program`` as one whose outputs are all tensors of the caller's, the new content of what it changes first.

    The exporter leaves out losses and gradients, and does not get past numbers.
    """
    signature = program.graph_signature
    if all(spec.kind in _GIVEN_BACK and not _is_number(spec) for spec in signature.output_specs):
        return program
    returned = [not isinstance(spec.arg, ConstantArgument) for spec in signature.output_specs]
    specs = [_given_back(spec) for spec, kept in zip(signature.output_specs, returned, strict=True) if kept]
    return ExportedProgram(
        program.graph_module,
        _ending_in(program.graph, returned),
        ExportGraphSignature(list(signature.input_specs), specs),
        program.state_dict,
        program.range_constraints,
        _returning(program, sum(spec.kind is OutputKind.USER_OUTPUT for spec in specs)),
        program.example_inputs,
        program.constants,
        verifiers=program.verifiers,
    )


def _is_number(spec: OutputSpec) -> bool:
    return isinstance(spec.arg, ConstantArgument) and spec.arg.value is not None


def _given_back(spec: OutputSpec) -> OutputSpec:
    return spec if spec.kind in _GIVEN_BACK else OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)


def _ending_in(graph: Graph, returned: list[bool]) -> Graph:
    """A copy of ``graph`` that returns those of its results."""
    made, copies = Graph(), dict[Node, Node]()
    results = made.graph_copy(graph, copies)
    for node, copy in copies.items():
        copy.name = node.name  # as the signature has it; a copy of `input` is called otherwise
    assert isinstance(results, list | tuple)
    end = made.output(tuple(result for result, kept in zip(results, returned, strict=True) if kept))
    end.meta = dict(graph.output_node().meta)
    return made


def _returning(program: ExportedProgram, count: int) -> list[ModuleCallEntry]:
    """What ``program`` says of the calls in it, where the whole returns ``count`` values."""
    whole, *others = program.module_call_graph
    assert whole.signature is not None
    flat = pytree.tree_structure((0,) * count)
    return [replace(whole, signature=replace(whole.signature, outputs=[], out_spec=flat)), *others]
