# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""One ONNX Runtime session per partition, on the provider the plan names and on no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetpart.devices import Provider
from hetpart.errors import DeviceUnavailableError, ExecutionError, InvalidBundleError
from hetpart.graph.calls import is_called
from hetpart.runtime.called import Held, called_session
from hetpart.runtime.in_one_form import read_in_place
from hetpart.runtime.lent import lend
from hetpart.runtime.loads import Loads, load_all, load_one
from hetpart.runtime.options import carry, leave_out
from hetpart.runtime.providers import ProviderChoice, is_capturable, planned_providers, provider_list
from hetpart.runtime.refusals import is_damage, ort_hint, ort_message
from hetpart.runtime.thrifty import arena, spared
from hetpart.runtime.widened import in_float32, is_widened
from hetpart.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnxruntime

    from hetpart.plan.bundle import Bundle
    from hetpart.plan.figures import DeviceUse
    from hetpart.plan.model import Partition, Plan
    from hetpart.runtime.called import CalledSession

    PartSession = onnxruntime.InferenceSession | CalledSession

_ERROR, _FATAL = 3, 4
"""ONNX Runtime's log severities. What goes wrong in a run it raises; why CUDA does not start it only logs."""
_REPARTITION = "`hetpart partition` the model again"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How the sessions of a plan are made."""

    emulate: bool = False
    """Run accelerator partitions on the CPU provider."""
    optimize: bool = True
    """ONNX Runtime's graph optimisations."""
    threads: int = 0
    """Threads of the host's sessions; 0 leaves it to ONNX Runtime."""
    alone: bool = True
    """Whether no other session of the plan takes turns with this one. Where several do, the idle threads of each would
    go on waiting in a loop and take the cores from the next: 13 partitions of BERT-base ran 2.5 times slower. They
    spin within a run alone there, which beats not spinning at all (181 ms against 241 in 15 partitions)."""
    given: onnxruntime.SessionOptions | None = None
    """The caller's own options, which go before all but what a plan needs."""
    providers: Mapping[str, ProviderChoice] = field(default_factory=dict[str, ProviderChoice])
    """What runs a device's partitions instead of the plan's provider."""
    cuda_graph: bool = False
    """Capture the partitions on CUDA that can be."""
    streams: Mapping[str, int] = field(default_factory=dict[str, int])
    """The stream that all partitions of a CUDA device compute on, where it is asked for work ahead."""
    shared: bool = False
    """Whether it uses the threads of ``share_threads``, whose number goes for ``threads``."""


def require_runtime() -> Any:
    """The ``onnxruntime`` module.

    Raises:
        DeviceUnavailableError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise DeviceUnavailableError(
            "ONNX Runtime is not installed", hint="pip install 'hetpart[gpu]' where there is a GPU, else 'hetpart[cpu]'"
        ) from error
    return onnxruntime


Given = Mapping[str, "onnxruntime.OrtValue"]
"""Weights by name that a session reads where they lie."""


def open_sessions(
    bundle: Bundle,
    settings: SessionSettings,
    given: Sequence[Given],
    lent: Given = MappingProxyType({}),
    progress: Callable[[str], None] | None = None,
) -> list[PartSession]:
    """A session for every partition, in the plan's order, as many opened at once as there are cores.

    A partition that PyTorch runs gets one that stands for it.

    Args:
        bundle: The partitions.
        settings: What all sessions have.
        given: Per partition: weights that are not read from a file. They must outlive the sessions.
        lent: The same for all partitions, in the place of weights that are in no file.
        progress: Told how many are open.

    Raises:
        DeviceUnavailableError: a partition's device does not answer here.
        ExecutionError: ONNX Runtime refuses a partition.
    """
    counted = settings.given is not None and settings.given.enable_profiling  # session by session

    def opened(place: int, loads: Loads) -> PartSession:
        partition, model = bundle.plan.partitions[place], bundle.models[place]
        if is_called(model):
            provider = bundle.plan.device(partition.device).provider
            held = Held(bundle.weights, lent)
            return called_session(partition, model, held, provider, emulate=settings.emulate)
        options = session_options(settings, bundle.weights, part=partition.file.removesuffix(".onnx"))
        thrifty = bundle.plan.device(partition.device).budget_bytes is not None
        lend(options, bundle.models[place], lent)
        loads.begin(options)
        listed = _listed(bundle.plan, partition, settings)
        if listed[0] == Provider.CPU:
            model = in_float32(model) if is_widened(model) else read_in_place(model, given[place])
        with spared(options, listed[0], apart=counted) if thrifty else nullcontext():
            return open_session(partition, model, listed, options, given[place])

    limited = any(use.budget_bytes is not None for use in bundle.plan.devices)
    with arena() if limited and not counted else nullcontext():
        return load_all(len(bundle.plan.partitions), opened, progress)


def plain_session(model: bytes, provider: Provider, device: str) -> onnxruntime.InferenceSession:
    """A session of ``model`` every node of which runs on ``device``.

    Raises:
        DeviceUnavailableError: the provider does not start here.
        Exception: ONNX Runtime's own: a node has no kernel there.
    """
    runtime = require_runtime()
    options = session_options(SessionSettings(), None)
    if provider is Provider.CUDA:
        runtime.preload_dlls()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    # The CPU provider must not be named beside that entry.
    session = runtime.InferenceSession(
        model, options, providers=planned_providers(provider, device)[:1], enable_fallback=0
    )
    if session.get_providers()[0] != provider:
        raise DeviceUnavailableError(f"{provider} does not start: ONNX Runtime offers {session.get_providers()}")
    return session


def open_session(
    partition: Partition,
    model: bytes,
    listed: list[Any],
    options: onnxruntime.SessionOptions,
    given: Given = MappingProxyType({}),
) -> onnxruntime.InferenceSession:
    """The session of one partition, on the first of the providers that are listed."""
    wanted = listed[0] if isinstance(listed[0], str) else listed[0][0]
    try:
        for name, value in given.items():
            options.add_initializer(name, value)
        session = _session(model, wanted, partition.device, options, listed)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        raise _refused(partition, error) from error
    _require_borders(session, partition)
    if session.get_providers()[0] != wanted:
        raise DeviceUnavailableError(
            f"partition {partition.id} is planned for {partition.device}, and {wanted} did not start: "
            f"ONNX Runtime offers {', '.join(session.get_providers())}",
            hint="run where a CUDA device answers, or with --emulate, or partition again with --budget 0",
        )
    return session


def _refused(partition: Partition, error: Exception) -> ExecutionError | InvalidBundleError:
    if is_damage(error):
        return InvalidBundleError(
            f"the bundle is damaged: {partition.file} is no whole model ({ort_message(error)})", hint=_REPARTITION
        )
    return ExecutionError(
        f"ONNX Runtime cannot load partition {partition.id} ({format_count(len(partition.ops), 'op')} on "
        f"{partition.device}): {ort_message(error)}",
        hint=ort_hint(
            error, "load the whole model in plain ONNX Runtime to see whether it can be run, or pin the op elsewhere"
        ),
    )


def whole_session(
    model: bytes | str, plan: Plan, settings: SessionSettings, weights: Path | None = None
) -> onnxruntime.InferenceSession:
    """A session of the uncut model, on the accelerator that the plan uses or, where it uses none, on the host."""
    host, *accelerators = plan.devices
    use = next((use for use in accelerators if use.device in plan.used_devices), host)
    wanted = Provider.CPU if settings.emulate else Provider(use.provider)
    return _stoppable_session(model, wanted, use.device, session_options(settings, weights))


def host_session(
    model: bytes, weights: Path | None, lent: Given = MappingProxyType({})
) -> onnxruntime.InferenceSession:
    """A session of ``model``, as it stands, on the host."""
    options = session_options(SessionSettings(optimize=False), weights)
    lend(options, model, lent)
    return _stoppable_session(model, Provider.CPU, "", options)


def annotated_session(
    one: Bundle, use: DeviceUse, settings: SessionSettings, entries: Mapping[str, str]
) -> onnxruntime.InferenceSession:
    """The session of a plan's one partition, on the host and on the device of ``use``, by the nodes' annotations.

    Raises:
        ExecutionError: ONNX Runtime refuses the model.
    """
    partition = one.plan.partitions[0]
    options = session_options(settings, None, part="native")
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    try:
        wanted = Provider.CPU if settings.emulate else Provider(use.provider)
        with spared(options, wanted) if use.budget_bytes is not None else nullcontext():
            return _stoppable_session(one.models[0], wanted, use.device, options)
    except Exception as error:  # ONNX Runtime's kinds of error share no other class
        raise _refused(partition, error) from error


def _stoppable_session(
    model: bytes | str, wanted: str, device: str, options: onnxruntime.SessionOptions
) -> onnxruntime.InferenceSession:
    """As ``_session``, which Ctrl-C ends."""
    return load_one(options, partial(_session, model, wanted, device, options))


def _session(
    model: bytes | str,
    wanted: str,
    device: str,
    options: onnxruntime.SessionOptions,
    listed: list[Any] | None = None,
) -> onnxruntime.InferenceSession:
    runtime = require_runtime()
    leave_out(options, model)
    if wanted != Provider.CPU:
        options.log_severity_level = min(options.log_severity_level, _ERROR)
        runtime.preload_dlls()
    providers = listed or planned_providers(Provider(wanted), device)
    session = runtime.InferenceSession(model, options, providers=providers, enable_fallback=0)
    session.disable_fallback()
    return session


def _require_borders(session: onnxruntime.InferenceSession, partition: Partition) -> None:
    planned = set(partition.inputs), set(partition.outputs)
    found = {arg.name for arg in session.get_inputs()}, {arg.name for arg in session.get_outputs()}
    if found != planned:
        other = sorted((planned[0] ^ found[0]) | (planned[1] ^ found[1]))
        raise InvalidBundleError(
            f"{partition.file} is not the model of partition {partition.id}: {', '.join(map(repr, other))} differ",
            hint=_REPARTITION,
        )


def session_options(settings: SessionSettings, weights: Path | None, *, part: str = "") -> onnxruntime.SessionOptions:
    """Options that every session of hetpart has; ``part`` tells the files that it writes from those of others."""
    runtime = require_runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL
    if settings.given is not None:
        carry(settings.given, options, part)
    if not settings.optimize:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if settings.shared:
        options.use_per_session_threads = False
    elif settings.threads:
        options.intra_op_num_threads = settings.threads
    if not settings.alone:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    if weights is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    return options


def _listed(plan: Plan, partition: Partition, settings: SessionSettings) -> list[Any]:
    """The providers of a partition's session."""
    choice = settings.providers.get(partition.device)
    if choice is not None:
        return provider_list(choice, partition.device)
    wanted = Provider.CPU if settings.emulate else Provider(plan.device(partition.device).provider)
    graph = {"enable_cuda_graph": "1"} if settings.cuda_graph and is_capturable(plan, partition) else {}
    stream = settings.streams.get(partition.device)
    ahead = {} if stream is None else {"user_compute_stream": str(stream)}
    return planned_providers(wanted, partition.device, graph | ahead)
