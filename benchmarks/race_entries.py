"""One entry of ``benchmarks.gpu_race`` in a process of its own.

It reads a job from standard input and writes what it took to standard output. An entry that cannot take part says why.
What it holds of the device is measured from outside, by the driver's count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

import hetpart
from hetpart.devices import Provider
from hetpart.plan.emit import RESOURCES
from hetpart.runtime.random_feeds import random_feeds

OURS, OWN_BUDGET, ALL_CPU, ACCELERATE = "hetpart", "ort-own-budget", "ort-all-cpu", "accelerate"
EMPTY = "empty"
"""No entry: a CUDA session of next to nothing, for what every process takes."""
SHARES_MEMORY = (OWN_BUDGET, ACCELERATE)
"""Entries that are told how much to use, and use another amount."""
_WARM_UP = 2
_KILOBYTE = 1024
_HOST_LIMIT = "1000GB"


@dataclass(frozen=True, slots=True)
class Job:
    """What an entry is to do."""

    entry: str
    race: str
    tiny: bool
    path: str
    budget: int
    """Bytes of the device that it is told to use."""
    runs: int
    emulate: bool
    hardware: str | None = None


class CannotError(Exception):
    """Why an entry takes no part here."""


def main() -> None:
    job = Job(**json.load(sys.stdin))
    try:
        answer = empty() if job.entry == EMPTY else ENTRIES[job.entry](job)
    except CannotError as why:
        answer = {"cannot": str(why)}
    json.dump(answer, sys.stdout)


def empty() -> dict[str, Any]:
    """One product of two numbers, on CUDA."""
    import onnxruntime
    from onnx import parser

    from hetpart.runtime.sessions import plain_session

    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[1,1] x) => (float[1,1] y) { y = MatMul(x, x) }'
    session = plain_session(parser.parse_model(text).SerializeToString(), Provider.CUDA, "cuda:0")
    session.run(None, {"x": np.ones((1, 1), np.float32)})
    return {"onnxruntime": onnxruntime.__version__}


def _race(job: Job) -> Any:
    from benchmarks.race_models import RACES, TINY

    return (TINY if job.tiny else RACES)[job.race]


def _partition(job: Job, **options: Any) -> hetpart.PartitionedModel:
    race = _race(job)
    states = dict(race.model.states)
    if states:
        options["state"] = states
    return hetpart.partition(job.path, hardware=job.hardware, shape=dict(race.shape), **options)


def _feeds(job: Job, planned: hetpart.PartitionedModel) -> dict[str, Any]:
    """The same for every entry. States begin as zeros, and a decoder writes the first positions of its cache."""
    states = {given for given, _ in _race(job).model.states}
    feeds = random_feeds([spec for spec in planned.plan.inputs if spec.name not in states], 0)
    if "positions" in feeds:
        shape = feeds["positions"].shape
        feeds["positions"] = np.ascontiguousarray(np.broadcast_to(np.arange(shape[1]), shape))
    return feeds


def _timed(run: Callable[[], Any], runs: int) -> list[float]:
    for _ in range(_WARM_UP):
        run()
    seconds: list[float] = []
    for _ in range(runs):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return seconds


def _digest(result: Any) -> list[float]:
    """A few figures of the first output, by which entries are compared."""
    array = np.asarray(result, np.float64)
    return [float(array.mean()), float(array.std()), float(np.abs(array).max())]


def ours(job: Job) -> dict[str, Any]:
    """Our plan for the budget."""
    planned = _partition(job, budget=job.budget)
    feeds, plan = _feeds(job, planned), planned.plan
    found: dict[str, Any] = {}
    if job.emulate:
        found["peak_bytes"] = _counted(planned, feeds)
    with planned.session(emulate=job.emulate) as session:
        first = session.run(None, feeds)[0]
        seconds = _timed(lambda: session.run(None, feeds), job.runs)
        overlaps = session.overlaps
    predicted = plan.timeline.seconds if plan.timeline and overlaps else plan.prediction.seconds
    return found | {
        "seconds": seconds,
        "digest": _digest(first),
        "predicted_seconds": predicted,
        "predicted_peak_bytes": {use.device: use.peak_bytes for use in plan.devices},
        "gap": plan.certificate.gap,
        "partitions": len(plan.partitions),
        "copies": len(plan.transfers),
        "overlaps": overlaps,
    }


def _counted(planned: hetpart.PartitionedModel, feeds: Mapping[str, Any]) -> int:
    """Bytes of the emulated accelerator, in runs apart from those that are timed."""
    from hetpart.runtime.held import ValueWatch
    from hetpart.runtime.profiles import profiling_options

    bundle, watch = planned.bundle(), ValueWatch()
    with (
        TemporaryDirectory(prefix="hetpart-") as folder,
        hetpart.Session(bundle, profiling_options(Path(folder)), emulate=True, record=watch) as session,
    ):
        for _ in range(3):
            session.run(None, feeds)
        held = session.held_memory(bundle, watch)
    return sum(own.peak for device, own in held.items() if device != planned.plan.devices[0].device)


def own_budget(job: Job) -> dict[str, Any]:
    """ONNX Runtime fills the budget by its own rule: nodes in their order until one does not fit."""
    if job.emulate:
        raise CannotError("its partitioner counts memory of the CUDA provider alone: it needs a CUDA device")
    return _ort(job, {RESOURCES: f"{job.budget // _KILOBYTE},"}, Provider.CUDA)


def all_cpu(job: Job) -> dict[str, Any]:
    """One ONNX Runtime session on the host."""
    return _ort(job, {}, Provider.CPU)


def _ort(job: Job, entries: Mapping[str, str], provider: Provider) -> dict[str, Any]:
    """One session of the whole model, its dimensions bound, as ONNX Runtime runs it without hetpart."""
    import onnxruntime

    from hetpart.plan.emit import whole_model
    from hetpart.runtime.providers import planned_providers
    from hetpart.runtime.sessions import SessionSettings, session_options

    planned = _partition(job, placement="all-cpu")
    bundle = planned.bundle()
    options = session_options(SessionSettings(), bundle.weights)
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    if provider is Provider.CUDA:
        onnxruntime.preload_dlls()
    session = onnxruntime.InferenceSession(
        whole_model(bundle).SerializeToString(),
        options,
        providers=planned_providers(provider, "cuda:0"),
        enable_fallback=0,
    )
    if session.get_providers()[0] != provider:
        raise CannotError(f"{provider} does not start here: ONNX Runtime offers {session.get_providers()}")
    run = _bound(session, dict(_race(job).model.states), _feeds(job, planned))
    first = next(run)
    return {"seconds": _timed(lambda: next(run), job.runs), "digest": _digest(first)}


def _bound(session: Any, states: Mapping[str, str], feeds: Mapping[str, Any]) -> Iterator[Any]:
    """Runs, as many as are asked for, of which each gives the first output; states stay where the session reads them.

    A state has two buffers that take turns: a session does not tell whether it may be updated in place.
    """
    import onnxruntime

    given = dict(zip((arg.name for arg in session.get_inputs()), session.get_input_memory_infos(), strict=True))
    shapes = {arg.name: arg.shape for arg in session.get_inputs()}
    pairs: dict[str, list[Any]] = {}
    for name in states:
        device = "cuda" if "cuda" in _name(given[name]).lower() else "cpu"
        zeros = np.zeros(shapes[name], np.float32)
        pairs[name] = [onnxruntime.OrtValue.ortvalue_from_numpy(zeros.copy(), device, 0) for _ in range(2)]
    others = [arg.name for arg in session.get_outputs() if arg.name not in states.values()]
    binding = session.io_binding()
    while True:
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, returned in states.items():
            binding.bind_ortvalue_input(name, pairs[name][0])
            binding.bind_ortvalue_output(returned, pairs[name][1])
            pairs[name].reverse()
        for name in others:
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        yield binding.get_outputs()[len(states)].numpy()  # they come in the order in which they were bound first


def _name(memory: Any) -> str:
    name = memory.name
    return name() if callable(name) else name


def accelerate(job: Job) -> dict[str, Any]:
    """The model's PyTorch module as Accelerate's ``device_map="auto"`` dispatches it, ``max_memory`` the budget."""
    race = _race(job)
    if not race.whole:
        raise CannotError("the model is not made from a PyTorch module")
    try:
        import accelerate as library
    except ImportError:
        raise CannotError("accelerate is not installed: pip install accelerate, and a PyTorch with CUDA") from None
    import torch

    if not torch.cuda.is_available():
        raise CannotError("this PyTorch finds no CUDA device")
    from benchmarks.models.exported import FAMILIES

    torch.backends.cuda.matmul.allow_tf32 = True  # as ONNX Runtime's CUDA provider does unless it is told otherwise
    config = dict(race.model.options)
    traced = FAMILIES[config.pop("family")](seed=0, **config)
    limits = {0: job.budget, "cpu": _HOST_LIMIT}
    module = traced.module.eval()
    devices = library.infer_auto_device_map(module, max_memory=limits, no_split_module_classes=list(race.whole))
    module = library.dispatch_model(module, device_map=devices)
    arguments = _torch_arguments(traced, _feeds(job, _partition(job, placement="all-cpu")), race)

    def run() -> Any:
        with torch.inference_mode():
            return module(*arguments)[0].cpu().numpy()

    first = run()
    return {"seconds": _timed(run, job.runs), "digest": _digest(first), "modules_on_gpu": _on_gpu(devices)}


def _torch_arguments(traced: Any, feeds: Mapping[str, Any], race: Any) -> list[Any]:
    """In the module's order, on the device; caches as zeros of the race's size, fed anew in every run."""
    import torch

    arguments: list[Any] = []
    for name, example in traced.inputs.items():
        if isinstance(example, torch.Tensor):
            arguments.append(torch.from_numpy(feeds[name]).cuda())
        else:
            _, heads, _, width = example[0].shape
            shape = (race.shape["batch"], heads, race.shape["context"], width)
            arguments.append(tuple(torch.zeros(shape, device="cuda") for _ in example))
    return arguments


def _on_gpu(devices: Mapping[str, Any]) -> str:
    there = sum(device == 0 for device in devices.values())
    return f"{there} of {len(devices)}"


ENTRIES: Mapping[str, Callable[[Job], dict[str, Any]]] = {
    OURS: ours,
    OWN_BUDGET: own_budget,
    ALL_CPU: all_cpu,
    ACCELERATE: accelerate,
}


def as_input(job: Job) -> str:
    """``job`` as its process reads it."""
    return json.dumps(asdict(job))


if __name__ == "__main__":
    main()
