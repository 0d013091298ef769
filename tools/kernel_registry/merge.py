"""From what ONNX Runtime and ONNX say, and what was probed, to the facts of the data file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from hetpart.errors import HetpartError
from tools.kernel_registry.facts import OPEN, Facts, OpFacts, Row
from tools.kernel_registry.records import Dump, Kernel, Probed, Schema

Name = tuple[str, str]
"""Domain and op type."""
_Fact = TypeVar("_Fact")
Slots = dict[str, tuple[str, ...]]
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
HELD_BY_NONE = {PROVIDERS["cuda"]: {"string"}}
"""Dtypes of no tensor in the provider's memory, though the registry has them where a kernel takes any tensor."""
RENAMED = {"float": "float32", "double": "float64"}
OWN_DOMAINS = ("com.microsoft",)
"""Of operators that the ``onnx`` package does not check."""
TENSORS = ("tensor(", "sparse_tensor(")
INSERTED = "Memcpy"
"""Ops that only ONNX Runtime puts into a graph."""
_LARGEST = 2**31 - 1
ANY = "any"


def merge(dump: Dump, probed: Probed) -> Facts:
    """The facts of the data file, sorted.

    Raises:
        HetpartError: ``probed`` names an op that ``dump`` does not have.
    """
    schemas, unplaced = _by_name(dump.schemas), list[str]()
    kernels = {short: _rows(dump.kernels, provider, schemas, unplaced) for short, provider in PROVIDERS.items()}
    since = _since(dump)
    bodies = {(each.domain, each.op_type) for each in dump.standards if each.is_newest and each.has_body}
    found = {
        name: OpFacts(
            since=tuple(sorted(since.get(name, ()))),
            cpu=kernels["cpu"].get(name, ()),
            cuda=kernels["cuda"].get(name, ()),
            function=name in bodies,
            takes=_takes(schemas[name][-1]) if name[0] in OWN_DOMAINS and name in schemas else {},
        )
        for name in sorted({*since, *kernels["cpu"], *kernels["cuda"]})
    }
    known = {name: each for name, each in found.items() if each.cpu or each.cuda or each.function}
    ops: dict[str, dict[str, OpFacts]] = {domain: {} for domain in dump.opsets}
    for name, each in _with_probed(known, probed).items():
        ops[name[0]][name[1]] = each
    return Facts(dump.onnxruntime, dump.onnx, probed.onnxruntime, dump.opsets, ops, tuple(sorted(set(unplaced))))


def _since(dump: Dump) -> dict[Name, set[int]]:
    """Versions of every op's schema: of what ONNX Runtime reads its own, which may lack some of the standard's."""
    since: dict[Name, set[int]] = defaultdict(set)
    for each in dump.schemas:
        if not each.op_type.startswith(INSERTED):
            since[each.domain, each.op_type].add(each.since)
    own = frozenset(since)
    for each in dump.standards:
        if (each.domain, each.op_type) not in own or each.since > dump.opsets[each.domain]:
            since[each.domain, each.op_type].add(each.since)
    return since


def _by_name(schemas: Iterable[Schema]) -> dict[Name, list[Schema]]:
    named: dict[Name, list[Schema]] = defaultdict(list)
    for schema in sorted(schemas, key=lambda each: each.since):
        named[schema.domain, schema.op_type].append(schema)
    return named


def _rows(
    kernels: Iterable[Kernel], provider: str, schemas: Mapping[Name, list[Schema]], unplaced: list[str]
) -> dict[Name, tuple[Row, ...]]:
    rows: dict[Name, list[Row]] = defaultdict(list)
    for kernel in kernels:
        if kernel.provider == provider and not kernel.op_type.startswith(INSERTED):
            row = _row(kernel, schemas, unplaced)
            rows[kernel.domain, kernel.op_type] += [row] if row else []
    return {name: united(each) for name, each in rows.items() if each}


def _row(kernel: Kernel, schemas: Mapping[Name, list[Schema]], unplaced: list[str]) -> Row | None:
    """The kernel's row; None for a CUDA kernel of sequences or strings, which lie on the host all the same."""
    schema = _schema_of(kernel, schemas.get((kernel.domain, kernel.op_type), []))
    slots: Slots = {}
    for constraint, kinds in sorted(kernel.types.items()):
        dtypes = {dtype for kind in kinds if (dtype := _dtype(kind))} - HELD_BY_NONE.get(kernel.provider, set())
        slot = _slot(schema, constraint)
        if slot is None:
            unplaced.append(f"{kernel.provider}: {kernel.domain or 'ai.onnx'}.{kernel.op_type} {constraint}")
        elif dtypes:
            slots[slot] = tuple(sorted(dtypes.union(slots.get(slot, ()))))
        elif kernel.provider in HELD_BY_NONE:
            return None
    last = OPEN if kernel.last == _LARGEST else kernel.last
    return Row(kernel.first, last, dict(sorted(slots.items())))


def _takes(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The dtypes of tensors that each input may have; nothing for inputs that may be something else."""
    return {
        f"{position}": tuple(sorted({dtype for kind in operand.types if (dtype := _dtype(kind))}))
        for position, operand in enumerate(schema.inputs)
        if operand.types and all(kind.startswith(TENSORS) for kind in operand.types)
    }


def _schema_of(kernel: Kernel, schemas: list[Schema]) -> Schema | None:
    """The schema that the kernel's first version contains."""
    position = bisect_right(schemas, kernel.first, key=lambda schema: schema.since)
    return schemas[position - 1] if position else None


def _dtype(kind: str) -> str | None:
    """The dtype of a tensor; None for sequences, maps and optionals, which a dtype does not tell."""
    if not kind.startswith("tensor("):
        return None
    inner = kind.removeprefix("tensor(").removesuffix(")")
    return RENAMED.get(inner, inner)


def _slot(schema: Schema | None, constraint: str) -> str | None:
    """The first operand of that constraint or name."""
    sides = (("", schema.inputs), ("o", schema.outputs)) if schema else ()
    for letter, operands in sides:
        for position, operand in enumerate(operands):
            if constraint in (operand.constraint, operand.name):
                return f"{letter}{position}"
    return None


def united(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The same kernels in fewer rows: two that differ in one operand's dtypes are one that takes either."""
    left = sorted(rows, key=_order)
    while pair := _unitable(left):
        one, other, both = pair
        left = [row for row in left if row is not one and row is not other] + [both]
        left.sort(key=_order)
    return tuple(left)


def _order(row: Row) -> tuple[int, int, tuple[tuple[str, tuple[str, ...]], ...]]:
    return row.first, row.last, tuple(row.slots.items())


def _unitable(rows: list[Row]) -> tuple[Row, Row, Row] | None:
    for index, one in enumerate(rows):
        for other in rows[index + 1 :]:
            if (one.first, one.last, *one.slots) != (other.first, other.last, *other.slots):
                continue
            differing = [slot for slot in one.slots if one.slots[slot] != other.slots[slot]]
            if len(differing) <= 1:
                wider = {slot: tuple(sorted({*one.slots[slot], *other.slots[slot]})) for slot in differing}
                return one, other, Row(one.first, one.last, {**one.slots, **wider})
    return None


def _with_probed(known: Mapping[Name, OpFacts], probed: Probed) -> dict[Name, OpFacts]:
    merged = dict(known)
    for key, rows in (("host_inputs", probed.host_inputs), ("host_outputs", probed.host_outputs)):
        for name, positions in _named(rows).items():
            merged[name] = replace(_present(name, merged, key), **{key: positions})
    for name, types in _named(probed.bodies).items():
        known_op = _present(name, merged, "bodies")
        row = Row(max(known_op.since), OPEN, {"0": tuple(types.split())})
        merged[name] = replace(known_op, cpu=united((*known_op.cpu, row)))
    for name, versions in _named(probed.expands).items():
        known_op = _present(name, merged, "expands")
        rows = sorted((_expanded(opsets, types, known_op.since) for opsets, types in versions.items()), key=_order)
        merged[name] = replace(known_op, expands=tuple(rows))
    return merged


def _named(rows: Mapping[str, Mapping[str, _Fact]]) -> dict[Name, _Fact]:
    at = {"ai.onnx": ""}
    return {(at.get(domain, domain), op_type): fact for domain, ops in rows.items() for op_type, fact in ops.items()}


def _present(name: Name, known: Mapping[Name, OpFacts], key: str) -> OpFacts:
    wanted = {"expands": "function", "bodies": "cpu"}.get(key, "cuda")
    if name not in known or not getattr(known[name], wanted):
        what = {"function": "function body", "cuda": "CUDA kernel", "cpu": "CPU kernel"}[wanted]
        raise HetpartError(
            f"probed.toml has {key} of {name[0] or 'ai.onnx'}.{name[1]}, which has no {what} here",
            hint="probe it anew, or take it out of tools/kernel_registry/probed.toml",
        )
    return known[name]


def _expanded(opsets: str, types: str, since: tuple[int, ...]) -> Row:
    """A row of opsets: from one to another, ``16-18``, or all that have the schema of a version."""
    first, _, last = opsets.partition("-")
    following = bisect_right(since, int(first))
    whole = since[following] - 1 if following < len(since) else _LARGEST
    return Row(int(first), int(last or whole), {} if types == ANY else {"0": tuple(sorted(types.split()))})
