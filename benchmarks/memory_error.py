# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""Predicted peak of activations against what ONNX Runtime's own arena says, on real models, the worst first.

    python -m benchmarks.memory_error > benchmarks/results/memory_error.json
    python -m benchmarks.memory_error bert-base --models build/zoo

Every model is planned as one partition on the host and run three times with the session options of hetpart's runtime,
inputs and outputs bound to memory of the caller: without a budget, and with one that it keeps to, where sessions are
thrifty. Measured is the largest ``mem_in_use_peak`` of the profile, less what
was in use before the first node ran: weights that the session copied or packed anew. docs/memory.md has the details.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import emit, machine_facts, say
from benchmarks.table import figure, print_table
from benchmarks.zoo import DEFAULT_FOLDER, ZOO, prepare, random_feeds

if TYPE_CHECKING:
    import onnxruntime

    import hetpart

MODELS = (
    "bert-base", "gpt2", "resnet50", "densenet121", "shufflenet", "vit-base", "whisper", "wide-and-deep", "dlrm",
    "moe-dense", "moe", "inception-v1", "inception-v2",
)  # fmt: skip
RUNS = 3
ACCESS = {"moe": {"*expert*": 2 / 8}}
"""What the user knows: two of eight experts take part in a token."""
THREADS = 2
"""Kernels that unfold images take room for each."""
HARDWARE = "l4"
"""Only the host takes part."""
REACH = 0.05
AMPLE = "1000TB"
"""A budget of the host."""
MIB = 1 / 2**20
COLUMNS = {
    "model": figure("model"),
    "thrifty": figure("thrifty"),
    "error": figure("error", "{:+.1%}"),
    "predicted MiB": figure("predicted", "{:.2f}", MIB),
    "measured MiB": figure("measured", "{:.2f}", MIB),
    "asked for MiB": figure("requested", "{:.2f}", MIB),
    "weights MiB": figure("weights", "{:.1f}", MIB),
    "packed MiB": figure("packed", "{:.1f}", MIB),
    "prepared MiB": figure("prepared", "{:.1f}", MIB),
    "open sizes": figure("dynamic"),
}


@dataclass(frozen=True, slots=True)
class Arena:
    """Bytes of a session's arena by its own account."""

    prepared: int
    """In use before the first node: weights copied, folded or packed anew while the session was made."""
    peak: int
    """Most in use beside them."""
    requested: int
    """Most that was asked for beside them, the arena's own rounding left out."""
    held: int
    """Asked of the system by the end, ``prepared`` left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """A model's figures."""

    model: str
    thrifty: bool
    """Whether the host has a budget."""
    predicted: int
    """As the access profile lets expect, where sizes depend on what is routed."""
    most: int
    """What they can be at most; budgets are held to it."""
    measured: int
    error: float
    requested: int
    held: int
    weights: int
    packed: int
    """Predicted of ``prepared``: matrices in the form that the CPU provider multiplies by."""
    prepared: int
    dynamic: int
    """Values whose size only a run can tell."""


def arena(name: str, path: Path, model: hetpart.PartitionedModel) -> Arena:
    """What the session of the plan's only partition does to its arena."""
    with tempfile.TemporaryDirectory() as folder:
        session = _session(model, Path(folder))
        binding = _binding(session, name, path, model)
        for _ in range(RUNS):
            session.run_with_iobinding(binding)
        events = json.loads(Path(session.end_profiling()).read_bytes())
    nodes = [event["args"] for event in events if event.get("name", "").endswith("_kernel_time")]
    first = nodes[0]
    prepared = int(first["mem_bytes_in_use"]) - int(first["mem_in_use_delta"])
    return Arena(
        prepared=prepared,
        peak=_peak(nodes) - prepared,
        requested=max(int(node["mem_bytes_requested_in_use"]) for node in nodes) - prepared,
        held=int(nodes[-1]["mem_arena_held"]) - prepared,
    )


def _peak(nodes: list[dict[str, Any]]) -> int:
    """Most bytes in use in a run. Where making the session took more, ORT's peak is of that, and of no use here."""
    peak = int(nodes[-1]["mem_in_use_peak"])
    after = max(int(node["mem_bytes_in_use"]) for node in nodes)
    return peak if peak > int(nodes[0]["mem_in_use_peak"]) else after


def _session(model: hetpart.PartitionedModel, folder: Path) -> onnxruntime.InferenceSession:
    import onnxruntime

    from hetpart.plan.bundle import open_bundle
    from hetpart.runtime.sessions import SessionSettings, session_options
    from hetpart.runtime.thrifty import spared

    bundle = open_bundle(model.save(folder / "model.hetpart"))
    options = session_options(SessionSettings(threads=THREADS), bundle.weights)
    thrifty = model.plan.devices[0].budget_bytes is not None
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    (only,) = bundle.models
    provider = "CPUExecutionProvider"
    with spared(options, provider) if thrifty else nullcontext():
        return onnxruntime.InferenceSession(only, options, providers=[provider], enable_fallback=0)


def _binding(session: onnxruntime.InferenceSession, name: str, path: Path, model: hetpart.PartitionedModel) -> Any:
    import onnxruntime

    feeds, specs = random_feeds(name, path), {spec.name: spec for spec in model.plan.outputs}
    binding = session.io_binding()
    for value in session.get_inputs():
        binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(feeds[value.name]))
    for value in session.get_outputs():
        shape = [size or 0 for size in specs[value.name].shape or ()]
        given = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, specs[value.name].dtype)
        binding.bind_ortvalue_output(value.name, given)
    return binding


def row(name: str, folder: Path, *, thrifty: bool = False) -> Row:
    """Predicts and measures one model."""
    import hetpart
    from hetpart.cost_model.session.packing import packed_bytes

    say(name)
    path = prepare(name, folder)
    model = hetpart.partition(
        path,
        hardware=HARDWARE,
        placement="all-cpu",
        shape=dict(ZOO[name].shape),
        threads=THREADS,
        access=ACCESS.get(name),
        host_budget=AMPLE if thrifty else None,
    )
    use, found = model.plan.devices[0], arena(name, path, model)
    expected = use.activation_bytes if use.expected_activation_bytes is None else use.expected_activation_bytes
    return Row(
        model=name,
        thrifty=thrifty,
        predicted=expected,
        most=use.activation_bytes,
        measured=found.peak,
        error=round(expected / found.peak - 1, 4),
        requested=found.requested,
        held=found.held,
        weights=use.weight_bytes,
        packed=packed_bytes(model.graph),
        prepared=found.prepared,
        dynamic=sum(not value.is_static for value in model.graph.values),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"models of the zoo; by default {', '.join(MODELS)}")
    parser.add_argument("--models", type=Path, default=DEFAULT_FOLDER, metavar="FOLDER", help="where they lie")
    arguments = parser.parse_args()
    facts = machine_facts()
    rows = [row(name, arguments.models, thrifty=t) for name in arguments.names or MODELS for t in (False, True)]
    rows.sort(key=lambda found: -abs(found.error))
    known = [abs(found.error) for found in rows if not found.dynamic]
    print_table(COLUMNS, [asdict(found) for found in rows])
    emit(
        "memory_error",
        {
            "machine": facts,
            "reach": REACH,
            "worst_of_known_sizes": max(known, default=None),
            "mean_of_known_sizes": round(sum(known) / len(known), 4) if known else None,
            "models": [asdict(found) for found in rows],
        },
    )


if __name__ == "__main__":
    main()
