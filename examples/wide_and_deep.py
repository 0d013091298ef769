"""Wide&Deep: embedding tables that exceed the accelerator's budget, and an MLP that wants the accelerator.

    python examples/wide_and_deep.py [--vocabulary 1000000] [--budget 100MB] [-o build/demo]

builds the model, partitions it, prints the report, runs the pieces and checks the result against the uncut model.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod, sqrt
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from hetpart import Plan, Session

FIELDS = 39
DIM = 80
LAYERS = (1024, 512, 256, 128, 1)
SEED = 20260101
OPSET = 20
IR_VERSION = 10
BATCH = 256
RUNS = 20
ROUNDING = 1e-5
"""Float32 on both sides: the probabilities differ by the order of sums and no more."""
ROUNDING_TF32 = 5e-3
"""A GPU multiplies float32 matrices in TF32, with 10 bits of mantissa."""
_CHUNK_ELEMENTS = 4_000_000
_ALIGNMENT = 4096
"""Weights start on page borders, so that a runtime can map the file."""


@dataclass(slots=True)
class WeightFile:
    """An external-data file of seeded random float32 weights, written chunk by chunk so that memory stays small."""

    path: Path
    seed: int
    sparse: bool = False
    """Leave every tensor over one chunk as a hole: it reads as zeros and takes no disk space."""
    tensors: list[TensorProto] = field(default_factory=list[TensorProto])

    @classmethod
    def beside(cls, model: Path, seed: int, *, sparse: bool = False) -> WeightFile:
        """A new file next to ``model``, empty whatever was there."""
        path = model.with_name(model.name + ".data")
        path.write_bytes(b"")
        return cls(path, seed, sparse)

    def normal(self, name: str, shape: tuple[int, ...], scale: float) -> str:
        """Appends a normally distributed tensor and returns its name."""
        offset = -(-self.path.stat().st_size // _ALIGNMENT) * _ALIGNMENT
        with self.path.open("r+b") as file:
            file.truncate(offset + 4 * prod(shape))
            file.seek(offset)
            for chunk in self._chunks(prod(shape)):
                file.write((chunk * np.float32(scale)).tobytes())
        self.tensors.append(_external_tensor(name, shape, self.path.name, offset))
        return name

    def _chunks(self, elements: int) -> Iterator[NDArray[np.float32]]:
        if self.sparse and elements > _CHUNK_ELEMENTS:
            return
        rng = np.random.default_rng((self.seed, len(self.tensors)))
        for start in range(0, elements, _CHUNK_ELEMENTS):
            yield rng.standard_normal(min(_CHUNK_ELEMENTS, elements - start), dtype=np.float32)


def _external_tensor(name: str, shape: tuple[int, ...], location: str, offset: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(4 * prod(shape)))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def perceptron(weights: WeightFile, prefix: str, value: str, sizes: tuple[int, ...]) -> list[onnx.NodeProto]:
    """Linear layers of ``sizes`` with ReLU between them. The last node's output is ``<prefix>/out``."""
    nodes: list[onnx.NodeProto] = []
    last = len(sizes) - 2
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        operands = [
            weights.normal(f"{prefix}.fc{layer}.weight", (fan_in, fan_out), sqrt(2 / fan_in)),
            weights.normal(f"{prefix}.fc{layer}.bias", (fan_out,), 0.01),
        ]
        linear = f"{prefix}/out" if layer == last else f"{prefix}/fc{layer}/linear"
        nodes.append(helper.make_node("Gemm", [value, *operands], [linear], name=f"/{prefix}/fc{layer}/Gemm"))
        value = linear
        if layer < last:
            value = f"{prefix}/fc{layer}/relu"
            nodes.append(helper.make_node("Relu", [linear], [value], name=f"/{prefix}/fc{layer}/Relu"))
    return nodes


def build(
    path: Path, *, vocabulary: int = 200_000, layers: tuple[int, ...] = LAYERS, seed: int = SEED, sparse: bool = False
) -> Path:
    """Writes Wide&Deep and, beside it, its weights: ``ids`` int64 [batch, 39] → ``probability`` [batch, 1]."""
    weights = WeightFile.beside(path, seed, sparse=sparse)
    make = helper.make_node
    deep_table = weights.normal("deep.embedding", (vocabulary, DIM), 1 / sqrt(DIM))
    wide_table = weights.normal("wide.embedding", (vocabulary, 1), 1 / sqrt(FIELDS))
    axis = helper.make_tensor("wide.axis", TensorProto.INT64, [1], [1])
    nodes = [
        make("Gather", [deep_table, "ids"], ["deep/rows"], name="/deep/embedding/Gather"),
        make("Flatten", ["deep/rows"], ["deep/features"], name="/deep/Flatten"),
        *perceptron(weights, "deep", "deep/features", (FIELDS * DIM, *layers)),
        make("Gather", [wide_table, "ids"], ["wide/rows"], name="/wide/embedding/Gather"),
        make("ReduceSum", ["wide/rows", axis.name], ["wide/out"], name="/wide/ReduceSum", keepdims=0),
        make("Add", ["deep/out", "wide/out"], ["logit"], name="/Add"),
        make("Sigmoid", ["logit"], ["probability"], name="/Sigmoid"),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", FIELDS])
    probability = helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph(nodes, "wide_and_deep", [ids], [probability], [*weights.tensors, axis])
    save(graph, path)
    return path


def save(graph: onnx.GraphProto, path: Path) -> None:
    """Writes ``graph`` as a checked model; its external weights already lie beside ``path``."""
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="hetpart-examples")
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(path), full_check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=1_000_000, help="rows of each table (default %(default)s)")
    parser.add_argument("--budget", default="100MB", help="accelerator memory to use (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/demo"), help="folder (default %(default)s)")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    demonstrate(arguments.output, arguments.vocabulary, arguments.budget)


def demonstrate(folder: Path, vocabulary: int, budget: str) -> None:
    """The whole path from a model to a checked run, told step by step."""
    import hetpart

    tables = 4 * vocabulary * (DIM + 1)
    print(f"1. Building Wide&Deep: {FIELDS} fields, tables of {tables / 1e6:,.0f} MB", flush=True)
    path = build(folder / "wide_and_deep.onnx", vocabulary=vocabulary)

    print(f"2. Partitioning it under a budget of {budget} for a batch of {BATCH}", flush=True)
    start = perf_counter()
    model = hetpart.partition(path, budget=budget, shape={"batch": BATCH})
    print(f"   planned in {perf_counter() - start:.2f} s\n\n{model.report()}")
    bundle = model.save(folder / "wide_and_deep.hetpart")

    print(f"3. Running it {RUNS} times", flush=True)
    session, tolerance = open_session(bundle)
    ids = np.random.default_rng(SEED).integers(0, vocabulary, (BATCH, FIELDS))
    results = [session.run(None, {"ids": ids})[0] for _ in range(RUNS)]

    print("4. Checking every result against the uncut model in one ONNX Runtime session", flush=True)
    check_results(results, uncut_result(path, ids), tolerance)
    check_placement(model.plan, tables)
    command = Path(os.path.relpath(sys.executable)).with_name("hetpart")
    print(f"\nmodel   {path}\nbundle  {bundle}\nThe report again: {command} report {bundle}")


def open_session(bundle: Path) -> tuple[Session, float]:
    """A session on the plan's devices, emulated where no GPU answers, and how far its results may be off."""
    import hetpart
    from hetpart.cost_model.detect import driver_gpus

    if driver_gpus():
        print("   on the GPU and the CPU")
        return hetpart.Session(bundle), ROUNDING_TF32
    print(
        "   no NVIDIA driver answers: the GPU's partitions run on the CPU, behind a memory of their own (emulate=True)"
    )
    return hetpart.Session(bundle, emulate=True), ROUNDING


def uncut_result(path: Path, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"ids": ids})[0]


def check_results(results: list[Any], expected: NDArray[np.float32], tolerance: float) -> None:
    difference = max(float(np.abs(result - expected).max()) for result in results)
    assert difference <= tolerance, f"results differ by {difference:.2g}, more than {tolerance:.2g}"
    print(f"   largest difference of {len(results)} runs: {difference:.2g} (allowed: {tolerance:.2g})")


def check_placement(plan: Plan, tables: int) -> None:
    """Both devices and a copy each way take part, and the tables could not have gone to the accelerator."""
    accelerators = [use for use in plan.devices if use.device != "cpu"]
    directions = sorted({(transfer.source, transfer.target) for transfer in plan.transfers})
    assert all(use.budget_bytes is not None and use.peak_bytes <= use.budget_bytes < tables for use in accelerators)
    assert set(plan.used_devices) == {"cpu", *(use.device for use in accelerators)}, plan.used_devices
    assert {source for source, _ in directions} == {target for _, target in directions} == set(plan.used_devices)
    for source, target in directions:
        copies = [transfer for transfer in plan.transfers if (transfer.source, transfer.target) == (source, target)]
        print(f"   {source} → {target}: {len(copies)} copied, {sum(copy.nbytes for copy in copies):,} bytes a run")


if __name__ == "__main__":
    main()
