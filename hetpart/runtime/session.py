# pyright: reportUnknownParameterType=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""``Session``: the calls of ``onnxruntime.InferenceSession``, over a partitioned model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from hetpart.errors import ExecutionError, InvalidFeedError
from hetpart.graph.granted import Asking
from hetpart.runtime.binding import IOBinding
from hetpart.runtime.description import DescribedSession, Description
from hetpart.runtime.executor import NO_TARGETS, Executor
from hetpart.runtime.feeds import boxed, checked_feeds, feeding, taken
from hetpart.runtime.forwarded import ForwardedCalls
from hetpart.runtime.later import LaterCalls
from hetpart.runtime.loading import load
from hetpart.runtime.opening import Opening
from hetpart.runtime.options import require_options
from hetpart.runtime.providers import ProviderOption
from hetpart.runtime.record import RunRecord
from hetpart.runtime.recorded import RecordedSession
from hetpart.runtime.refusals import CHECK_HINT, CLOSED_HINT, ort_hint, ort_message
from hetpart.runtime.resident import StateOption, read_states
from hetpart.runtime.sessions import session_options
from hetpart.runtime.sole import SoleSession
from hetpart.runtime.states import States
from hetpart.runtime.turn import Turn

if TYPE_CHECKING:
    from os import PathLike

    import onnxruntime

    from hetpart.plan.bundle import Bundle


class Session(DescribedSession, ForwardedCalls, RecordedSession, LaterCalls):
    """Runs a bundle. Threads may share it: their runs take turns, for the plan's buffers are there once.

    Args:
        bundle: Path of a bundle, or one that is open.
        sess_options: ``onnxruntime.SessionOptions`` for the session of every partition: optimisation level, logging,
            profiling, threads and other settings that can be read back. Providers are the plan's.
        providers: Nothing: the plan says where every op runs.
        provider_options: Nothing, likewise.
        emulate: Run accelerator partitions on the CPU provider, behind buffers of their own.
        optimize: ONNX Runtime's graph optimisations.
        threads: Threads of the host's sessions; 0 leaves it to ONNX Runtime, ``None`` takes those of ``sess_options``
            and, where these leave it open, the plan's.
        mode: ``"native"`` leaves it to one ONNX Runtime session to run the plan, by annotations; ``"own-budget"`` to
            one that fills the plan's budget by ONNX Runtime's own rule, whatever the plan says.
        state: Inputs and the outputs that replace them, kept on their device from run to run: ``{"past": "present"}``,
            or ``"auto"`` for those that go by name; ``None`` takes the plan's, ``{}`` has none. A run need not be fed
            them, and returns them only where they are asked for.
        verify: ``"full"`` hashes all of the weight files, ``"sampled"`` some blocks.
        overlap: Whether devices and copies work at the same time: ``None`` where the plan's figures promise a gain,
            ``False`` never, ``True`` wherever the plan has more than one lane.
        emulate_link: How fast copies to and from emulated accelerators are, ``"12GB/s"`` or bytes per second; ``None``
            as fast as memory is.
        provider: Other execution providers, by device: ``"cuda:0=TensorrtExecutionProvider,trt_fp16_enable=1"``.
        cuda_graph: Capture partitions on CUDA whose values all have one size and one address in every run.
        progress: Told of every partition that is loaded.
        record: Note when the tasks of a run begin and end, for ``write_trace``; or what notes something else of them.

    Raises:
        DeviceUnavailableError: The plan needs an accelerator that does not answer, and ``emulate`` is off.
        InvalidBundleError: The bundle is incomplete, or its weights changed.
        InvalidOptionError: An option has no such value.
    """

    def __init__(  # noqa: PLR0913 - the options of a session
        self,
        bundle: str | PathLike[str] | Bundle,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: None = None,
        provider_options: None = None,
        *,
        mode: Literal["partitions", "native", "own-budget"] = "partitions",
        state: StateOption = None,
        emulate: bool = False,
        optimize: bool = True,
        threads: int | None = None,
        verify: str = "sampled",
        overlap: bool | None = None,
        emulate_link: str | float | None = None,
        provider: ProviderOption = None,
        cuda_graph: bool = False,
        progress: Callable[[str], None] | None = None,
        record: bool | RunRecord = False,
    ) -> None:
        require_options(sess_options, providers, provider_options)
        opening = Opening(
            mode=mode, verify=verify, emulate=emulate, optimize=optimize, threads=threads, overlap=overlap,
            emulate_link=emulate_link, provider=provider, cuda_graph=cuda_graph, progress=progress, record=record,
        )  # fmt: skip
        opened = opening.bundle(bundle)
        settings, self.ahead = opening.settings(opened, sess_options)
        """Which CUDA devices are asked for work ahead, or why none is."""
        loaded = load(opened, settings, mode=mode, progress=progress)
        self.emulate, self.threads = emulate, settings.threads
        self.plan, self.weights = loaded.bundle.plan, opened.weights
        self._sessions, self._weights = loaded.sessions, loaded.weights
        states = read_states(loaded.bundle, state)
        self._layout = opening.layout(loaded.bundle, states, self.ahead)
        self._overlap, self._feeds = overlap, feeding(self._layout.plan.inputs, self._layout.kept)
        self._output_names = [spec.name for spec in self._layout.plan.outputs]
        self._known_outputs = {spec.name for spec in self.plan.outputs}
        self._described = Description.of(self.plan, self._sessions)
        self._options = session_options(settings, None) if sess_options is None else sess_options
        self._record = RunRecord() if record is True else record or None
        self._models = loaded.bundle.models if self._record else ()
        self._sole = SoleSession.of(self._layout, self._sessions) if self._record is None else None
        self._direct: Any = None if self._sole is None else self._sole.run
        self._executor: Executor | None = None
        self._turn, self._asking = Turn(), Turn()
        self._granted = Asking(self.plan.granted) if self.plan.granted.conditions else None
        self._states = States(states, self._layout.memories, self._turn)
        self._closed = False

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Results in the order of ``output_names``, or of the model's outputs.

        Raises:
            InvalidFeedError: A feed's name, dtype or shape is not the planned one, or an output is unknown.
            ExecutionError: A partition failed, or the session is closed.
        """
        direct = self._direct
        names = self._output_names if output_names is None else self._asked(output_names)
        if direct is not None:
            try:
                return direct(names, taken(input_feed), run_options)
            except Exception as error:  # ONNX Runtime's kinds of error share no other class
                raise self._explained(error, input_feed) from error
        results = self._results(names, input_feed, run_options, boxed=False)
        return [results[name] for name in names]

    def _results(
        self, names: Sequence[str], given: Mapping[str, Any], options: Any, *, boxed: bool, to: IOBinding | None = None
    ) -> dict[str, Any]:
        """Results by name, OrtValues where ``boxed``. The binding ``to`` takes them while states may yet go back."""
        fed, old = self._states.apart(given)
        feeds, targets = self._feeds(fed), NO_TARGETS if to is None else to.targets()
        with self._turn.take():
            executor = self._own_executor()
            if not self._layout.states:
                if self._granted is not None:
                    self._granted.require(feeds)
                made = executor.run(feeds, options, boxed=boxed, targets=targets)
                if to is not None:
                    to.take(made)
                return made
            executor.settle()
            with self._states.fed(old):
                if self._granted is not None:
                    self._granted.require({**self._states.grown, **feeds})
                made = executor.run(feeds, options, boxed=boxed, targets=targets)
                made |= self._states.returned(names, boxed=boxed)
                if to is not None:
                    to.take(made)
            return made

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> list[onnxruntime.OrtValue]:
        """As ``run``, from OrtValues to OrtValues: those that the plan keeps on an accelerator lie there."""
        names = self._asked(output_names)  # whose order a sole partition need not have
        if self._sole is not None:
            try:
                values = boxed(self.plan.inputs, input_dict_ort_values)
                return self._sole.run_with_ort_values(names, values, run_options)
            except InvalidFeedError:
                raise
            except Exception as error:  # ONNX Runtime's kinds of error share no other class
                raise self._explained(error, input_dict_ort_values) from error
        results = self._results(names, input_dict_ort_values, run_options, boxed=True)
        return [results[name] for name in names]

    def io_binding(self) -> Any:
        """What to bind inputs and outputs to, with the calls of ``onnxruntime.IOBinding``."""
        self._require_open()
        if self._sole is not None:
            return self._sole.io_binding(self.plan)
        return IOBinding(self.plan, self, self._layout.memories)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run on what is bound; ``iobinding.get_outputs()`` has the results."""
        self._require_open()
        if self._sole is not None:
            try:
                self._sole.run_with_iobinding(iobinding, run_options)
            except Exception as error:  # ONNX Runtime's kinds of error share no other class
                raise self._failure(error) from error
            return
        if not isinstance(iobinding, IOBinding) or iobinding.owner is not self:
            raise InvalidFeedError("the binding is of another session", hint="make one with session.io_binding()")
        self._results(iobinding.wanted, iobinding.feeds(), run_options, boxed=True, to=iobinding)

    def _own_executor(self) -> Executor:
        self._require_open()
        if self._executor is None:
            states = self._states if self._layout.states else None
            self._executor = Executor(self._layout, self._sessions, overlap=self._overlap, states=states)
            self._executor.record, self._turn.worker = self._record, self._executor
        return self._executor

    def _require_open(self) -> None:
        if self._closed:
            raise ExecutionError("the session is closed", hint=CLOSED_HINT)

    def _explained(self, error: Exception, input_feed: Mapping[str, Any]) -> Exception:
        """What was wrong with the feed, else with the partition."""
        try:
            checked_feeds(self.plan.inputs, input_feed)
        except InvalidFeedError as wrong:
            return wrong
        return self._failure(error)

    def _failure(self, error: Exception) -> ExecutionError:
        told = f"partition 0 on {self.plan.partitions[0].device} failed: {ort_message(error)}"
        return ExecutionError(told, hint=ort_hint(error, CHECK_HINT))

    def _asked(self, names: Iterable[str] | None) -> list[str]:
        """The outputs to return: all but states where ``names`` has none."""
        if isinstance(names, str) or not hasattr(names or (), "__iter__"):
            raise InvalidFeedError(f"the outputs asked for are {names!r}, no list", hint=f"ask for a list: [{names!r}]")
        asked = list(names or ())
        unknown = [name for name in asked if name not in self._known_outputs]
        if unknown:
            raise InvalidFeedError(
                f"the model has no output {', '.join(map(repr, unknown))}",
                hint=f"its outputs are {', '.join(repr(spec.name) for spec in self.plan.outputs)}",
            )
        return asked or self._output_names

    def state(self) -> States:
        """What stays on its device from run to run, by input name, to be read and set: ``session.state()["past"]``."""
        return self._states

    def reset_state(self) -> None:
        """Every state as before the first run: zeros; one that grows is empty."""
        with self._turn.take():
            self._turn.settle()
            self._states.reset()

    def get_session_options(self) -> onnxruntime.SessionOptions:
        """The options that the session was given, or those that it gave itself."""
        return self._options

    def close(self) -> None:
        """Free the sessions and buffers, once the run that has its turn is over; the Session cannot run afterwards."""
        self._end_later()
        with self._turn.take():
            self._closed = True
            if self._executor is not None:
                self._executor.close()
            self._executor = self._turn.worker = None
            self._sole = self._direct = None
            self._states.free()
            self._sessions = []
            self._weights = ()
        self._end_later()  # of what was asked for meanwhile

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close; what interrupts the caller, Ctrl-C or the end of its coroutine, ends runs of ``run_async`` too."""
        self._end_later(give_up=kind is not None and not issubclass(kind, Exception))
        self.close()
