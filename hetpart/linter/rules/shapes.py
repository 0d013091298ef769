# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""HPS: whether sizes are known before a run, and types no wider than they need to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.errors import UnboundDimensionsError
from hetpart.graph.ir import ValueKind, ValueRole
from hetpart.linter.content import numbers
from hetpart.linter.declared import contradicted
from hetpart.linter.rule import Mark, Stage, rule
from hetpart.plan.findings import Severity
from hetpart.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetpart.linter.subject import Subject

WIDE = "float64"
WORTH_ELEMENTS = 1024
"""Elements of a float64 result that is worth a word: shapes and scales are often of that type, and cost nothing."""
WORTH_NARROWING = 2**16
"""Bytes of a weight of indices that would be half as large."""
_INT32 = (-(2**31), 2**31 - 1)
_TAKE_INT32 = frozenset({"Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND", "OneHot"})


@rule(
    "HPS001", "unknown-shape", Severity.WARNING, Stage.GRAPH,
    hint="give the custom operator shape inference, or add value_info with the shape to the model",
)  # fmt: skip
def unknown_shape(subject: Subject) -> Iterator[Mark]:
    """A value of which not even the rank is known.

    ## What it does
    Finds results whose type or rank shape inference cannot tell.

    ## Why is this bad
    What is not known can be neither priced nor given a buffer: its size is a guess in every figure of a plan.

    ## Example
    A custom operator `com.example::Decode` without shape inference.

    ## Use instead
    A `value_info` entry for its output in the file.
    """
    returned = set(subject.graph.outputs)
    for op in subject.graph.ops:
        for value in (subject.graph.values[result] for result in op.results):
            is_read = bool(subject.readers[value.id]) or value.id in returned
            if is_read and value.kind is ValueKind.TENSOR and (value.shape is None or not value.dtype):
                yield Mark(f"the shape of {value.name!r}, which {op.op_type} {op.name!r} makes, is unknown", op=op.name)


@rule(
    "HPS002", "unbound-dimension", Severity.WARNING, Stage.FILE, tries=Stage.GRAPH,
    hint="give the number: --shape batch=8,seq=128",
)  # fmt: skip
def unbound_dimension(subject: Subject) -> Iterator[Mark]:
    """A dimension without a number, so that nothing can be planned.

    ## What it does
    Says which symbolic dimensions of the inputs got no number.

    ## Why is this bad
    Costs and memory are of one size. Without numbers the rules that need them are left out.

    ## Example
    `hetpart lint bert.onnx`, whose inputs are `[batch, seq]`.

    ## Use instead
    `hetpart lint bert.onnx --shape batch=1,seq=128`
    """
    if isinstance(subject.problem, UnboundDimensionsError):
        yield Mark(subject.problem.message, hint=subject.problem.hint)


@rule(
    "HPS003", "shape-conflict", Severity.ERROR, Stage.FILE, tries=Stage.GRAPH,
    hint="export the model again, or remove the value_info that is wrong",
)  # fmt: skip
def shape_conflict(subject: Subject) -> Iterator[Mark]:
    """A shape that the file declares and its operators contradict.

    ## What it does
    Infers the shapes of all values from the inputs alone and compares them with what the file declares.

    ## Why is this bad
    A tool that trusts the declaration plans buffers of the wrong size. ONNX Runtime warns, or fails in a run.

    ## Example
    A model whose batch was changed in its inputs and not in its outputs.

    ## Use instead
    `dim_param` for sizes that vary, and shapes inferred anew after an edit.
    """
    imported = None if subject.imported is None else subject.graph
    for name, declared, found in contradicted(subject.proto, imported):
        yield Mark(f"{name!r} is declared {declared} and computed {found}", anchor=name)


@rule(
    "HPS004", "float64-compute", Severity.WARNING, Stage.GRAPH,
    hint="cast to float32 before it, or build the model in float32",
)  # fmt: skip
def float64_compute(subject: Subject) -> Iterator[Mark]:
    """Arithmetic in float64.

    ## What it does
    Finds ops that make float64 results of a thousand elements and more from inputs of the model.

    ## Why is this bad
    Twice the bytes; on a GPU that was not made for simulation a 32nd to a 64th of the speed; and CUDA kernels for
    float64 lack for many operators, which sends the op to the CPU.

    ## Example
    A NumPy constant that was not given a dtype: `torch.from_numpy(np.ones(512)) * x`

    ## Use instead
    `np.ones(512, np.float32)`
    """
    for op in subject.graph.ops:
        for value in (subject.graph.values[result] for result in op.results):
            if value.dtype == WIDE and value.numel >= WORTH_ELEMENTS:
                yield Mark(f"{op.op_type} {op.name!r} computes {value.name!r} in float64", op=op.name)
                break


@rule(
    "HPS005", "dynamic-shape-blocks-plan", Severity.NOTE, Stage.GRAPH, default=False,
    hint="bound it: pad to a fixed size, or give the op a constant where it has a variable",
)  # fmt: skip
def dynamic_shape_blocks_plan(subject: Subject) -> Iterator[Mark]:
    """An op whose result has a size that only a run can tell.

    ## What it does
    Finds the ops where a size stops being known: those that make a value of unknown size from known ones.

    ## Why is this bad
    From there on memory is estimated by the most that can be, and values are allocated in the run instead of lying in
    the plan's buffers.

    ## Example
    `NonZero`, or a `Reshape` whose shape is computed from the content of an input.

    ## Use instead
    A mask of fixed size.
    """
    values = subject.graph.values
    vague_ids = {value.id for value in values if not value.is_static}
    for op in subject.graph.ops if vague_ids else ():
        if not vague_ids.isdisjoint(op.uses):
            continue
        made = [values[result] for result in op.results if values[result].kind is ValueKind.TENSOR]
        vague = next((value for value in made if not value.is_static and value.shape is not None), None)
        if vague is not None:
            yield Mark(f"only a run can tell the size of {vague.name!r}, made by {op.op_type} {op.name!r}", op=op.name)


@rule(
    "HPS006", "int64-where-int32-serves", Severity.NOTE, Stage.GRAPH, default=False,
    hint="write the indices as int32",
)  # fmt: skip
def int64_where_int32_serves(subject: Subject) -> Iterator[Mark]:
    """Indices in a weight of int64 that int32 could hold.

    ## What it does
    Reads weights of int64 that only serve as indices, where they are large.

    ## Why is this bad
    They take twice the memory, and twice the bandwidth in every run.

    ## Example
    A table of positions, int64 because PyTorch's `arange` is.

    ## Use instead
    `torch.arange(n, dtype=torch.int32)`
    """
    graph, tensors = subject.graph, {tensor.name: tensor for tensor in subject.proto.graph.initializer}
    for value in graph.values:
        readers = [graph.ops[op] for op in subject.readers[value.id]]
        if (
            value.role is not ValueRole.WEIGHT
            or value.dtype != "int64"
            or value.nbytes < WORTH_NARROWING
            or not readers
        ):
            continue
        if all(op.op_type in _TAKE_INT32 and value.id in op.inputs[1:] for op in readers):
            found = numbers(tensors[value.name], subject.loaded) if value.name in tensors else None
            if found is not None and _INT32[0] <= found.min() and found.max() <= _INT32[1]:
                yield Mark(f"{value.name!r} would take {format_bytes(value.nbytes // 2)} as int32", anchor=value.name)
