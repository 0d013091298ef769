# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""What a session says of its model: inputs, outputs, where it comes from, in ``onnxruntime``'s own words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetpart.devices import Provider
from hetpart.plan.homes import home
from hetpart.runtime.dtypes import session_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetpart.plan.model import Plan, ValueSpec
    from hetpart.runtime.sessions import PartSession

_UNVERSIONED = 2**63 - 1
"""What ONNX Runtime gives for a model without a version."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output, with the attributes of ``onnxruntime.NodeArg``."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Where a model comes from, with the attributes of ``onnxruntime.ModelMetadata``."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = _UNVERSIONED
    custom_metadata_map: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Description:
    """All that stays true when the sessions are closed."""

    inputs: list[NodeArg]
    outputs: list[NodeArg]
    metadata: ModelMetadata
    providers: list[str]
    """Those that take part, accelerators first."""
    provider_options: dict[str, dict[str, str]]
    input_memories: list[Any]
    """``onnxruntime.OrtMemoryInfo`` of where each is handed over."""
    output_memories: list[Any]
    input_devices: list[Any]
    """``onnxruntime.OrtEpDevice``, where the provider that reads an input tells of one."""

    @classmethod
    def of(cls, plan: Plan, sessions: Sequence[PartSession]) -> Description:
        """As the plan's sessions tell."""
        known, there = _borders(sessions), _handed_over(plan, sessions)
        used = {session.get_providers()[0] for session in sessions}
        options: dict[str, dict[str, str]] = {}
        for session in sessions:
            options |= session.get_provider_options()
        return cls(
            [known.get(spec.name) or _node_arg(spec) for spec in plan.inputs],
            [known.get(spec.name) or _node_arg(spec) for spec in plan.outputs],
            _metadata(sessions[0]) if sessions else ModelMetadata(graph_name=plan.model.name),
            sorted(used, key=lambda name: (name == Provider.CPU, name)),
            options,
            [there[0].get(spec.name) or _host_memory() for spec in plan.inputs],
            [there[1].get(spec.name) or _host_memory() for spec in plan.outputs],
            [there[2].get(spec.name) for spec in plan.inputs],
        )


def _handed_over(plan: Plan, sessions: Sequence[PartSession]) -> tuple[dict[str, Any], ...]:
    """Memories of inputs, of outputs, and devices of inputs, by the partitions where the plan hands them over."""
    found: tuple[dict[str, Any], ...] = {}, {}, {}
    for partition, session in zip(plan.partitions, sessions, strict=True):
        inputs, outputs = session.get_inputs(), session.get_outputs()
        told = (
            zip(inputs, session.get_input_memory_infos(), strict=True),
            zip(outputs, session.get_output_memory_infos(), strict=True),
            zip(inputs, session.get_input_epdevices(), strict=True),
        )
        for known, pairs in zip(found, told, strict=True):
            known |= {arg.name: what for arg, what in pairs if home(plan, arg.name) == partition.device}
    return found


def _host_memory() -> Any:
    import onnxruntime

    kind, purpose = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
    return onnxruntime.OrtMemoryInfo("Cpu", kind, 0, purpose)


def _borders(sessions: Sequence[PartSession]) -> dict[str, NodeArg]:
    """Every value at a partition's border, as ONNX Runtime describes it there."""
    found = [arg for session in sessions for arg in (*session.get_inputs(), *session.get_outputs())]
    return {arg.name: NodeArg(arg.name, arg.type, arg.shape) for arg in found}


def _node_arg(spec: ValueSpec) -> NodeArg:
    """An input that no partition reads."""
    return NodeArg(spec.name, session_type(spec.dtype), list(spec.shape or ()))


def _metadata(session: PartSession) -> ModelMetadata:
    """The whole model's, which every part repeats; the part's number follows the graph's name."""
    told = session.get_modelmeta()
    return ModelMetadata(
        told.producer_name,
        told.graph_name.rpartition("/")[0] or told.graph_name,
        told.domain,
        told.description,
        told.graph_description,
        told.version,
        dict(told.custom_metadata_map),
    )


class DescribedSession:
    """What ``onnxruntime.InferenceSession`` tells of a model."""

    _described: Description

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, as ``onnxruntime`` describes them."""
        return self._described.inputs

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, as ``onnxruntime`` describes them."""
        return self._described.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """None: a weight that is an input too has the content that the model file gives it."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Where the model comes from."""
        return self._described.metadata

    def get_providers(self) -> list[str]:
        """Providers that take part, accelerators first."""
        return self._described.providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options of the providers that take part."""
        return self._described.provider_options

    def get_input_memory_infos(self) -> list[Any]:
        """Where each input is handed over, as ``onnxruntime.OrtMemoryInfo``."""
        return self._described.input_memories

    def get_output_memory_infos(self) -> list[Any]:
        """Where each output is handed over, as ``onnxruntime.OrtMemoryInfo``."""
        return self._described.output_memories

    def get_input_epdevices(self) -> list[Any]:
        """The ``onnxruntime.OrtEpDevice`` that reads each input, or ``None``."""
        return self._described.input_devices
