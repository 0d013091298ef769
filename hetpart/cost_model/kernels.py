"""Which provider has a kernel for an op, and which operands its CUDA kernel keeps in host memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.kernel_facts import KernelFacts, Kernels, kernel_facts, newest_opset, runtime
from hetpart.cost_model.pytorch_kernels import missing_in_pytorch
from hetpart.cost_model.refusals import BODY_NEEDS, CPU_REFUSES, CUDA_REFUSES, LEFT_WHOLE, REFUSES, refused
from hetpart.devices import Provider
from hetpart.graph.calls import CALL_DOMAIN
from hetpart.graph.ir import Graph, Op, ValueKind
from hetpart.graph.kernel_rules import KernelRules, TypedOp

CASTS: Mapping[str, Mapping[str, str]] = {"CPU": {"float16": "float32", "bfloat16": "float32"}}
"""What is cast to where a provider has no kernel for half precision: float16 by ONNX Runtime, else by the runtime."""
GATED: Mapping[tuple[Provider, str], str] = {(Provider.CPU, "HardSwish"): "HardSigmoid"}
"""Ops without a kernel that become two there: one makes a gate of the input, a Mul multiplies the input by it."""
LIFTED = frozenset({("", "Constant")})
"""ONNX Runtime turns them into initializers before it looks for kernels."""


def missing_kernel(provider: Provider, op: Op, graph: Graph) -> str | None:
    """Why ``provider`` cannot run ``op``, in words; None where it can."""
    if (op.domain, op.op_type) in LIFTED:
        return None
    if op.domain == CALL_DOMAIN:
        return missing_in_pytorch(provider, op)
    return _missing_of(provider, op, graph) or _missing_inside(provider, op)


def _missing_inside(provider: Provider, op: Op) -> str | None:
    """The same for the ops of its bodies; those that CUDA has no kernel for ONNX Runtime leaves to the CPU."""
    able = dict.fromkeys((provider, Provider.CPU))
    for body in op.bodies:
        for inner in body.ops:
            why = [missing_kernel(each, inner, body) for each in able]
            if all(why):
                return f"{op.op_type} holds {inner.name!r}: {why[-1]}"
    return None


def _missing_of(provider: Provider, op: Op, graph: Graph) -> str | None:
    newest = newest_opset(op)
    if op.version > newest:
        return f"{runtime()} reads {op.domain or 'ai.onnx'} up to opset {newest}, and the model's is {op.version}"
    facts = kernel_facts(op.domain, op.op_type, op.version)
    if facts is None:
        return f"no provider knows {op.domain or 'ai.onnx'}.{op.op_type}"
    refusal = _untaken(facts, op, graph) if op.domain else refused(REFUSES, Operands.of(op, graph))
    if refusal:
        return f"{runtime()} runs no {facts.name} with {refusal}"
    if provider is Provider.CPU:
        refusal = refused(CPU_REFUSES, Operands.of(op, graph))
        if refusal:
            return f"the CPU kernel for {facts.name} refuses {refusal}"
        is_whole = not op.domain and op.version in LEFT_WHOLE.get(op.op_type, ())
        kernels = facts.cpu if is_whole else cpu_kernels(facts, op.op_type, op.attributes)
        return _missing(kernels, "CPU", facts, op, graph)
    return _missing_on_cuda(facts, op, graph)


def _untaken(facts: KernelFacts, op: Op, graph: Graph) -> str | None:
    """The first input of a dtype that the operator's schema does not allow, which ONNX Runtime asks before a kernel."""
    for operand in facts.takes:
        if not operand.suits(op, graph, {}):
            value = op.inputs[operand.position]
            assert value is not None
            return f"{graph.values[value].dtype} as input {operand.position}"
    return None


def cpu_kernels(facts: KernelFacts, op_type: str, attributes: Mapping[str, object]) -> Kernels:
    """What the CPU provider has for an op: kernels of its own, and those of its body."""
    name, value = BODY_NEEDS.get(op_type, ("", None))
    return (*facts.cpu, *(facts.expands if attributes.get(name) == value else ()))


def lacks_half(op: Op, graph: Graph) -> bool:
    """Whether the CPU provider has a kernel for ``op`` in float32, and none for the half precision it stands in."""
    facts = kernel_facts(op.domain, gate_of(Provider.CPU, op) or op.op_type, op.version)
    if facts is None or op.bodies:
        return False
    kernels = cpu_kernels(facts, op.op_type, op.attributes)
    return _suited(kernels, op, graph, CASTS["CPU"]) and not _suited(kernels, op, graph, {})


def is_left_to_runs(op: TypedOp) -> bool:
    """Whether ONNX Runtime computes ``op`` anew in every run, on constants alone: it folds by kernels of the CPU."""
    facts = kernel_facts(op.domain, op.op_type, op.version)
    if facts is None or (op.domain, op.op_type) in LIFTED:
        return False
    return not any(all(operand.takes(op) for operand in kernel) for kernel in facts.cpu)


def is_function(op: Op) -> bool:
    """Whether the schema of ``op`` has a body of other ops."""
    facts = kernel_facts(op.domain, op.op_type, op.version)
    return facts is not None and facts.function


def gate_of(provider: Provider, op: Op) -> str | None:
    """The op that makes a gate of what ``op`` reads, where ``provider`` runs that and a Mul instead."""
    return None if op.domain else GATED.get((provider, op.op_type))


def runs_as_body(op: Op, graph: Graph) -> bool:
    """Whether ONNX Runtime puts the body of the operator in the place of ``op``, whatever provider it is for.

    One that holds a subgraph itself stays as it is: a user tells how often that runs.
    """
    facts = kernel_facts(op.domain, op.op_type, op.version)
    if facts is None or not facts.expands or op.bodies or op.version > newest_opset(op):
        return False
    if not op.domain and refused(REFUSES, Operands.of(op, graph)):
        return False
    own = (*facts.cpu, *facts.cuda)
    return _suited(facts.expands, op, graph, {}) and not _suited(own, op, graph, {})


ONNX_RUNTIME = KernelRules(runs_as_body, is_left_to_runs)
"""What a model is imported for."""


def host_inputs(op: Op, graph: Graph) -> frozenset[int]:
    """Positions of the inputs that the CUDA kernel of ``op`` reads from host memory."""
    facts = kernel_facts(op.domain, op.op_type, op.version)
    if facts is None or not facts.host_inputs:
        return frozenset()
    return frozenset(i for i, value in enumerate(graph.in_values(op)) if value is not None and i in facts.host_inputs)


def host_outputs(op: Op) -> frozenset[int]:
    """Positions of the outputs that the CUDA kernel of ``op`` leaves in host memory."""
    facts = kernel_facts(op.domain, op.op_type, op.version)
    return frozenset() if facts is None else facts.host_outputs


def _missing_on_cuda(facts: KernelFacts, op: Op, graph: Graph) -> str | None:
    foreign = _off_device(op, graph)
    if foreign:
        return foreign
    if not facts.cuda:
        expanded = facts.function and not facts.cpu and _has_body(op.domain, op.op_type, op.version)
        return None if expanded else f"no CUDA kernel for {facts.name}"
    refusal = refused(CUDA_REFUSES, Operands.of(op, graph))
    if refusal:
        return f"the CUDA kernel for {facts.name} refuses {refusal}"
    return _missing(facts.cuda, "CUDA", facts, op, graph)


@cache
def _has_body(domain: str, op_type: str, version: int) -> bool:
    """Whether the operator, as that version has it, is a function: that a newer one is says nothing of it."""
    import onnx

    if not onnx.defs.has(op_type, version, domain):
        return True
    schema: Any = onnx.defs.get_schema(op_type, version, domain)  # whose stub leaves functions out
    return schema.has_function or schema.has_context_dependent_function


def _missing(kernels: Kernels, provider: str, facts: KernelFacts, op: Op, graph: Graph) -> str | None:
    instead = CASTS.get(provider, {})
    if _suited(kernels, op, graph, instead):
        return None
    dtypes = dict.fromkeys(graph.values[v].dtype for v in (*op.uses, *op.results))
    named = f" with {', '.join(dtype for dtype in dtypes if dtype)}" if kernels else ""
    return f"no {provider} kernel for {facts.name}{named}"


def _suited(kernels: Kernels, op: Op, graph: Graph, instead: Mapping[str, str]) -> bool:
    """Whether one of ``kernels`` takes the dtypes of ``op``."""
    return any(all(operand.suits(op, graph, instead) for operand in kernel) for kernel in kernels)


def _off_device(op: Op, graph: Graph) -> str | None:
    """Strings, sequences and optionals stay on the host."""
    for value_id in (*op.uses, *op.results):
        value = graph.values[value_id]
        if value.kind is not ValueKind.TENSOR or value.dtype == "string":
            what = "string" if value.kind is ValueKind.TENSOR else value.kind.value
            return f"{op.op_type} uses a {what}, which CUDA kernels cannot"
    return None
