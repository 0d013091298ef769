# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Partitions that PyTorch runs: operators without a translation to ONNX, called on tensors where the plan's values lie.

What lies at an address of the plan's is read there through DLPack or the address itself, without a copy. What is made
is copied to the address that the plan has for it; where only a run tells its size it is handed on as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hetpart.devices import Provider
from hetpart.errors import DeviceUnavailableError, ExecutionError
from hetpart.graph.calls import CALL, CALL_DOMAIN
from hetpart.plan.model import ValueForm
from hetpart.runtime.description import ModelMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import onnx

    from hetpart.frontend.calls import Call
    from hetpart.plan.model import Partition
    from hetpart.runtime.frame import Frame, Place, Stage
    from hetpart.runtime.lent import Lent

PYTORCH = "PyTorch"
"""Stands where the events of ONNX Runtime's nodes name a provider."""
RUN = "model_run"
"""ONNX Runtime's event of a whole run of a session."""
_NEVER = 2**63 - 1
"""When a profile begins that nobody asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One call, the name of its node, and the values that it reads and makes, by name."""

    name: str
    call: Call
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Where the weights of a bundle are: in the files of a folder, or in the memory of whoever lent them."""

    folder: Path | None
    lent: Lent


class CalledSession:
    """Stands where ONNX Runtime's session of a partition would, and tells what such a one tells."""

    def __init__(self, partition: Partition, model: bytes, weights: Held, provider: str, device: str) -> None:
        """Read the calls of ``partition``, and bring the weights that they use to ``device``, PyTorch's name of it.

        Raises:
            DeviceUnavailableError: PyTorch is not installed, or does not reach the device.
            ExecutionError: PyTorch does not know an operator.
        """
        _require_pytorch(partition, device)
        import onnx
        import torch

        from hetpart.frontend.calls import Call
        from hetpart.runtime.called_weights import constants

        proto = onnx.load_model_from_string(model)
        self.device = torch.device(device)
        self.steps = [
            Step(node.name, Call.read(_text(node)), tuple(node.input), tuple(node.output))
            for node in proto.graph.node
            if node.domain == CALL_DOMAIN
        ]
        held = constants(proto, weights.folder, weights.lent)
        self.constants = {name: tensor.to(self.device) for name, tensor in held.items()}
        self._provider = provider
        self._metadata = _metadata(proto)

        self.views: dict[Place, tuple[int, Any]] = {}
        """Addresses of places, and the tensors there that the last run made."""
        self.writing = frozenset(name for step in self.steps if step.call.writes for name in step.makes)
        """What calls write to the place that is meant for it."""
        self.ends: list[float] = []
        """When the last run began, and when each call of it ended: seconds of ``perf_counter``."""

    def results(self, given: Mapping[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
        """Every tensor that the calls make, by name; ``places`` are those of results in ``writing``."""
        known = dict(self.constants) | dict(given)
        self.ends = [perf_counter()]
        for step in self.steps:
            inputs = [known[name] for name in step.reads]
            if places.keys() >= set(step.makes):
                made = [places[name] for name in step.makes]
                step.call.write(inputs, made, self.device)
            else:
                made = step.call(inputs, self.device)
            known.update(zip(step.makes, made, strict=True))
            self.ends.append(perf_counter())
        return known

    def events(self) -> list[dict[str, Any]]:
        """The last run and its calls as ONNX Runtime's profiles have runs and nodes; none where there was no run.

        On CUDA a call ends when it has been asked for.
        """
        begins = [1e6 * begin for begin in self.ends]
        spans = zip(self.steps, begins, begins[1:], strict=False)
        calls = [
            {**_event("Node", step.name, begin, end), "args": {"op_name": str(step.call.target), "provider": PYTORCH}}
            for step, begin, end in spans
        ]
        return [_event("Session", RUN, begins[0], begins[-1]), *calls] if calls else []

    def get_inputs(self) -> list[Any]:
        """Nothing: the plan describes them."""
        return []

    get_outputs = get_input_memory_infos = get_output_memory_infos = get_input_epdevices = get_inputs
    get_provider_graph_assignment_info = get_inputs

    def get_providers(self) -> list[str]:
        """The provider of the device's other partitions."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None."""
        return {}

    def get_modelmeta(self) -> ModelMetadata:
        """What the partition's file says of the model."""
        return self._metadata

    def end_profiling(self) -> str:
        """No file: ONNX Runtime's profiles do not tell of PyTorch."""
        return ""

    def get_profiling_start_time_ns(self) -> int:
        """Never."""
        return _NEVER

    def release_captured_graph(self, graph_annotation_id: int) -> None:
        """Nothing is captured."""
        del graph_annotation_id


def _event(category: str, name: str, begin: float, end: float) -> dict[str, Any]:
    return {"cat": category, "ph": "X", "name": name, "pid": 0, "tid": 0, "ts": begin, "dur": end - begin}


def _text(node: onnx.NodeProto) -> str:
    return next((attribute.s.decode() for attribute in node.attribute if attribute.name == CALL), "")


def _metadata(proto: onnx.ModelProto) -> ModelMetadata:
    properties = {entry.key: entry.value for entry in proto.metadata_props}
    return ModelMetadata(
        proto.producer_name, proto.graph.name, proto.domain, proto.doc_string, proto.graph.doc_string,
        proto.model_version, properties,
    )  # fmt: skip


def _require_pytorch(partition: Partition, device: str) -> None:
    what = f"partition {partition.id} holds {partition.ops[0]!r}, which PyTorch runs"
    if find_spec("torch") is None:
        raise DeviceUnavailableError(f"{what}, and it is not installed", hint="pip install 'hetpart[torch]'")
    import torch

    if device != "cpu" and not torch.cuda.is_available():
        raise DeviceUnavailableError(
            f"{what} on {partition.device}, and this PyTorch ({torch.__version__}) reaches no CUDA device",
            hint="install PyTorch for CUDA, pin the op to the cpu, or run with --emulate",
        )


def called_session(partition: Partition, model: bytes, weights: Held, provider: str, *, emulate: bool) -> CalledSession:
    """The session of a partition that PyTorch runs; emulated accelerators are the host's memory."""
    elsewhere = provider != Provider.CPU and not emulate
    return CalledSession(partition, model, weights, provider, partition.device if elsewhere else "cpu")


def run_called(frame: Frame, stage: Stage, session: CalledSession) -> None:
    """Make the calls of a partition.

    Raises:
        ExecutionError: one made something else than planned.
        Exception: PyTorch's own.
    """
    layout, partition = frame.layout, stage.partition
    inputs = {name: _tensor(frame, layout.place(partition, name), session) for name in partition.inputs}
    wanted = {name: layout.place(partition, name) for name in partition.outputs if name in session.writing}
    places = {name: _target(frame, place, session) for name, place in wanted.items() if layout.is_sized(place)}
    made = session.results(inputs, places)
    _wait(session)
    for name in partition.outputs:
        if made[name] is not places.get(name):
            _keep(frame, layout.place(partition, name), made[name], inputs, session)
    _wait(session)


def _wait(session: CalledSession) -> None:
    """Nobody else knows of PyTorch's stream: what was started on it is done when this returns."""
    if session.device.type == "cuda":
        import torch

        torch.cuda.current_stream(session.device).synchronize()


def _tensor(frame: Frame, place: Place, session: CalledSession) -> Any:
    from hetpart.runtime.called_tensors import shared

    spec = frame.layout.specs[place[0]]
    if spec.form is ValueForm.STATIC:
        return _view(frame, place, frame.address(place), session)
    return shared(spec, frame.arrays[place])


def _view(frame: Frame, place: Place, address: int, session: CalledSession) -> Any:
    """The tensor that lies at ``address``: most places have one address in all runs."""
    from hetpart.runtime.called_tensors import at_address

    known = session.views.get(place)
    if known is None or known[0] != address:
        known = address, at_address(frame.layout.specs[place[0]], address, frame.layout.memories[place[1]])
        session.views[place] = known
    return known[1]


def _keep(frame: Frame, place: Place, made: Any, inputs: Mapping[str, Any], session: CalledSession) -> None:
    from hetpart.runtime.called_tensors import dtype_of, lent

    spec = frame.layout.specs[place[0]]
    wanted = dtype_of(spec.dtype)
    if made.dtype != wanted or (spec.form is ValueForm.STATIC and tuple(made.shape) != spec.shape):
        raise ExecutionError(
            f"{place[0]!r} is {made.dtype}{list(made.shape)}, planned was {wanted}{list(spec.shape or ())}",
            hint="the operator's fake implementation and its kernel differ; mend it where it is registered",
        )
    if spec.form is not ValueForm.STATIC:
        frame.arrays[place] = lent(made, list(inputs.values()))
        return
    _target(frame, place, session).copy_(made)


def _target(frame: Frame, place: Place, session: CalledSession) -> Any:
    """The tensor that a result of known size belongs in."""
    address = frame.addresses.get(place)
    return _view(frame, place, frame.new_address(place) if address is None else address, session)
