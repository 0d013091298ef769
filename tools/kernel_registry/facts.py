"""The data file: its records, its text, and its text in words to compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

OPEN = 0
"""The last version of a kernel whose range is open."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel: versions, and for each operand that it limits the dtypes it may have."""

    first: int
    last: int
    slots: Mapping[str, tuple[str, ...]]
    """``0`` is input 0, ``o0`` output 0."""


@dataclass(frozen=True, slots=True)
class OpFacts:
    """All facts of an op type; what is empty is left out of the file."""

    since: tuple[int, ...]
    cpu: tuple[Row, ...] = ()
    function: bool = False
    expands: tuple[Row, ...] = ()
    cuda: tuple[Row, ...] = ()
    host_inputs: tuple[int, ...] = ()
    host_outputs: tuple[int, ...] = ()
    takes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Of an op of ONNX Runtime's own, what its schema allows each input, which is asked before any kernel."""

    @property
    def lists(self) -> Iterator[tuple[str, ...]]:
        """Every list of types."""
        rows = chain(self.cpu, self.expands, self.cuda)
        return chain(chain.from_iterable(row.slots.values() for row in rows), self.takes.values())


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of the data file."""

    onnxruntime: str
    onnx: str
    probed: str
    """The ONNX Runtime that ``probed.toml`` speaks of."""
    opsets: Mapping[str, int]
    ops: Mapping[str, Mapping[str, OpFacts]]
    unplaced: tuple[str, ...] = field(default=(), compare=False)
    """Constraints of kernels that no operand has: the file does not hold them."""


def to_json(facts: Facts) -> str:
    """The data file: an op type a line, types once each."""
    named = {types for ops in facts.ops.values() for op in ops.values() for types in op.lists}
    types = {each: index for index, each in enumerate(sorted(named))}
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in _head(facts).items()]
    listed = ",\n".join(json.dumps(" ".join(each)) for each in types)
    domains = ",\n".join(f"{json.dumps(domain)}: {{\n{_ops(ops, types)}\n}}" for domain, ops in facts.ops.items())
    return "{\n" + ",\n".join([*head, f'"types": [\n{listed}\n]', f'"ops": {{\n{domains}\n}}']) + "\n}\n"


def _head(facts: Facts) -> dict[str, object]:
    return {
        "about": (
            f"Kernels of ONNX Runtime {facts.onnxruntime}, written by `python -m tools.kernel_registry`. "
            "opsets: the newest version of each domain that it reads. since: versions of the operator's schema. "
            "function: the ONNX schema has a function body. cpu and cuda: [first version, last version or 0, "
            "{operand: index into types}], operand i is input i and oi output i; ONNX Runtime takes an open range "
            "for its first version only. expands: what the CPU provider runs by that body without a kernel, in the "
            "same form, of opsets. host_inputs and host_outputs: operands the CUDA kernel keeps in host memory. takes: "
            "what the schema of an operator of ONNX Runtime's own allows its inputs, whichever provider runs it."
        ),
        "source": (
            f"Kernels by get_all_opkernel_def(); schemas also of onnx {facts.onnx}; opsets by sessions. expands, "
            f"host_inputs and host_outputs by tools/kernel_registry/probed.toml, of ONNX Runtime {facts.probed}."
        ),
        "onnxruntime": facts.onnxruntime,
        "onnx": facts.onnx,
        "probed": facts.probed,
        "opsets": facts.opsets,
    }


def _ops(ops: Mapping[str, OpFacts], types: Mapping[tuple[str, ...], int]) -> str:
    compact = {name: json.dumps(_fields(op, types), separators=(",", ":")) for name, op in ops.items()}
    return ",\n".join(f"{json.dumps(name)}: {text}" for name, text in compact.items())


def _fields(op: OpFacts, types: Mapping[tuple[str, ...], int]) -> dict[str, object]:
    def rows(kernels: tuple[Row, ...]) -> list[object]:
        return [[row.first, row.last, {slot: types[kinds] for slot, kinds in row.slots.items()}] for row in kernels]

    fields: dict[str, object] = {
        "since": op.since,
        "cpu": rows(op.cpu),
        "function": int(op.function),
        "expands": rows(op.expands),
        "cuda": rows(op.cuda),
        "host_inputs": op.host_inputs,
        "host_outputs": op.host_outputs,
        "takes": {slot: types[kinds] for slot, kinds in op.takes.items()},
    }
    return {key: value for key, value in fields.items() if value}


def in_words(text: str) -> list[str]:
    """The lines of a data file with types spelled out, each naming its operator: one changed type is one line."""
    document = cast("dict[str, Any]", json.loads(text))
    lines = [f"{key}: {document.get(key)}" for key in ("onnxruntime", "onnx", "probed", "opsets")]
    types: list[str] = document["types"]
    for domain, ops in document["ops"].items():
        for name, facts in ops.items():
            lines += [f"{domain or 'ai.onnx'}.{name} {line}" for line in _op_in_words(facts, types)]
    return lines


def _op_in_words(facts: Mapping[str, Any], types: list[str]) -> Iterator[str]:
    for key, value in facts.items():
        if key == "takes":
            yield f"takes {'; '.join(f'{slot}: {types[index]}' for slot, index in value.items())}"
            continue
        if key not in ("cpu", "expands", "cuda"):
            yield f"{key} {value}"
            continue
        for first, last, slots in value:
            limits = "; ".join(f"{slot}: {types[index]}" for slot, index in slots.items())
            yield f"{key} {first}..{last or ''} {limits}".rstrip()
