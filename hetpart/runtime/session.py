# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""``Session``: the calls of ``onnxruntime.InferenceSession``, over a partitioned model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from hetpart.config import parse_link
from hetpart.devices import HOST, Provider
from hetpart.errors import DeviceUnavailableError, ExecutionError, InvalidBundleError, InvalidFeedError
from hetpart.plan.bundle import Bundle, open_bundle
from hetpart.plan.model import Plan, ValueForm, ValueSpec
from hetpart.runtime.dtypes import is_builtin, session_type
from hetpart.runtime.executor import Executor
from hetpart.runtime.feeds import checked_feeds, in_native_order
from hetpart.runtime.frame import Layout
from hetpart.runtime.refusals import ort_message
from hetpart.runtime.sessions import SessionSettings, cuda_answers, open_sessions, require_runtime

if TYPE_CHECKING:
    from os import PathLike

    import onnxruntime


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output, with the attributes of ``onnxruntime.NodeArg``."""

    name: str
    type: str
    shape: list[int | str | None]


class Session:
    """Runs a bundle. Threads may share it: their runs take turns, for the plan's buffers are there once.

    Args:
        bundle: Path of a bundle, or one that is open.
        emulate: Run accelerator partitions on the CPU provider, behind buffers of their own.
        optimize: ONNX Runtime's graph optimisations.
        threads: Threads of the host's sessions; 0 leaves it to ONNX Runtime, ``None`` takes the plan's.
        verify: ``"full"`` hashes all of the weight files, ``"sampled"`` some blocks.
        overlap: Whether devices and copies work at the same time: ``None`` where the plan's figures promise a gain,
            ``False`` never, ``True`` wherever the plan has more than one lane.
        emulate_link: How fast copies to and from emulated accelerators are, ``"12GB/s"`` or bytes per second; ``None``
            as fast as memory is.

    Raises:
        DeviceUnavailableError: The plan needs an accelerator that does not answer, and ``emulate`` is off.
        InvalidBundleError: The bundle is incomplete, or its weights changed.
    """

    def __init__(  # noqa: PLR0913 - the options of a session
        self,
        bundle: str | PathLike[str] | Bundle,
        *,
        emulate: bool = False,
        optimize: bool = True,
        threads: int | None = None,
        verify: str = "sampled",
        overlap: bool | None = None,
        emulate_link: str | float | None = None,
    ) -> None:
        opened = bundle if isinstance(bundle, Bundle) else open_bundle(Path(bundle), verify_full=verify == "full")
        self.plan: Plan = opened.plan
        self.weights = opened.weights
        self.emulate = emulate
        self.threads = _planned_threads(self.plan) if threads is None else threads
        settings = SessionSettings(emulate, optimize, self.threads, alone=len(self.plan.partitions) < 2)
        _require_devices(self.plan, emulate=emulate)
        self._sessions = open_sessions(opened, settings)
        self._layout = Layout.of(self.plan, emulate=emulate, link=parse_link(emulate_link, emulate=emulate))
        self._overlap = overlap
        self._output_names = [spec.name for spec in self.plan.outputs]
        self._described = _described(self._sessions)
        self._direct = self._direct_run()
        self._executor: Executor | None = None
        self._turn = Lock()
        self._closed = False

    def _direct_run(self) -> Any:
        """The one session's own ``run`` for a plan that is a single partition on the host: nothing to add to it."""
        if len(self._sessions) != 1 or self.plan.passthrough:
            return None
        partition, borders = self.plan.partitions[0], (*self.plan.inputs, *self.plan.outputs)
        on_host = partition.device == self.plan.devices[HOST].device
        complete = set(partition.inputs) == {spec.name for spec in self.plan.inputs}
        known = all(spec.form is ValueForm.OPAQUE or is_builtin(spec.dtype) for spec in borders)
        return self._sessions[0].run if on_host and complete and known else None

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Results in the order of ``output_names``, or of the model's outputs.

        Raises:
            InvalidFeedError: A feed's name, dtype or shape is not the planned one, or an output is unknown.
            ExecutionError: A partition failed, or the session is closed.
        """
        direct = self._direct
        if direct is not None:
            try:
                return direct(output_names or self._output_names, in_native_order(input_feed), run_options)
            except Exception as error:  # ONNX Runtime's kinds of error share no other class
                raise self._explained(error, output_names, input_feed) from error
        self._check_outputs(output_names)
        feeds = checked_feeds(self.plan.inputs, input_feed)
        with self._turn:
            results = self._own_executor().run(feeds, run_options)
        return [results[name] for name in output_names or self._output_names]

    def _own_executor(self) -> Executor:
        if self._closed:
            raise ExecutionError("the session is closed", hint="open the bundle again: hetpart.Session(bundle)")
        if self._executor is None:
            self._executor = Executor(self._layout, self._sessions, overlap=self._overlap)
        return self._executor

    def _explained(
        self, error: Exception, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]
    ) -> Exception:
        """What was wrong with the call, else with the partition."""
        try:
            self._check_outputs(output_names)
            checked_feeds(self.plan.inputs, input_feed)
        except InvalidFeedError as wrong:
            return wrong
        return ExecutionError(f"partition 0 on {self.plan.partitions[0].device} failed: {ort_message(error)}")

    def _check_outputs(self, names: Sequence[str] | None) -> None:
        if isinstance(names, str):
            raise InvalidFeedError(f"the outputs asked for are the text {names!r}", hint=f"ask for a list: [{names!r}]")
        unknown = [name for name in names or () if name not in self._output_names]
        if unknown:
            raise InvalidFeedError(
                f"the model has no output {', '.join(map(repr, unknown))}",
                hint=f"its outputs are {', '.join(map(repr, self._output_names))}",
            )

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, as ``onnxruntime`` describes them."""
        return [self._described.get(spec.name) or _node_arg(spec) for spec in self.plan.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, as ``onnxruntime`` describes them."""
        return [self._described.get(spec.name) or _node_arg(spec) for spec in self.plan.outputs]

    def get_providers(self) -> list[str]:
        """Providers that take part, accelerators first."""
        used = [session.get_providers()[0] for session in self._sessions]
        return sorted(set(used), key=lambda name: (name == Provider.CPU, name))

    @property
    def overlaps(self) -> bool:
        """Whether devices and copies work at the same time in its runs; it is known from the first one on."""
        return self._executor is not None and self._executor.overlaps

    def last_copies(self) -> tuple[tuple[str, int], ...]:
        """Direction (``cpu->cuda:0``) and bytes of every copy between devices that the last run made."""
        made = () if self._executor is None else self._executor.copied
        return tuple((f"{copy.source}->{copy.target}", copy.nbytes) for copy in made)

    def close(self) -> None:
        """Free the sessions and buffers, once the run that has its turn is over; the Session cannot run afterwards."""
        with self._turn:
            self._closed = True
            if self._executor is not None:
                self._executor.close()
            self._executor = None
            self._direct = None
            self._sessions = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _planned_threads(plan: Plan) -> int:
    text = plan.options.get("threads", "0")
    if not text.isdecimal():
        raise InvalidBundleError(
            f"the plan asks for {text!r} threads, which is not a number", hint="give threads= yourself, or --threads"
        )
    return int(text)


def _described(sessions: Sequence[onnxruntime.InferenceSession]) -> dict[str, NodeArg]:
    """Every value at a partition's border, as ONNX Runtime describes it there."""
    found = [arg for session in sessions for arg in (*session.get_inputs(), *session.get_outputs())]
    return {arg.name: NodeArg(arg.name, arg.type, arg.shape) for arg in found}


def _node_arg(spec: ValueSpec) -> NodeArg:
    """An input that no partition reads."""
    return NodeArg(spec.name, session_type(spec.dtype), list(spec.shape or ()))


def _require_devices(plan: Plan, *, emulate: bool) -> None:
    """Refuse before anything is loaded where an accelerator of the plan cannot be used."""
    host = plan.devices[HOST].device
    needed = [name for name in plan.used_devices if name != host]
    if not needed or emulate:
        return
    use = plan.device(needed[0])
    if use.provider == Provider.CPU:
        raise DeviceUnavailableError(
            f"the plan was made for {use.device} of the machine {plan.machine.name!r}, which is emulated",
            hint="run with --emulate (emulate=True)",
        )
    if use.provider not in require_runtime().get_available_providers():
        raise DeviceUnavailableError(
            f"the plan needs {', '.join(needed)}, and this ONNX Runtime has no {use.provider}",
            hint="install hetpart[gpu] where there is a GPU, or run with --emulate (emulate=True)",
        )
    for name in needed:
        if not cuda_answers(int(name.partition(":")[2] or 0)):
            raise DeviceUnavailableError(
                f"the plan needs {name} ({plan.device(name).model}), and no such CUDA device answers on this machine",
                hint="run where there is one, run with --emulate (emulate=True), or partition again with --budget 0",
            )
