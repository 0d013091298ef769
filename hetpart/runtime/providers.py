"""Which execution provider runs a device's partitions, where the user says so, and CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetpart.devices import HOST, Provider
from hetpart.errors import DeviceUnavailableError, InvalidOptionError
from hetpart.plan.model import ValueForm

if TYPE_CHECKING:
    from hetpart.plan.model import Partition, Plan

ProviderOption = Mapping[str, str] | Sequence[str] | str | None
"""``cuda:0=TensorrtExecutionProvider``, with its options after commas; several of these, or a mapping by device."""
_INDEXED = frozenset(
    f"{name}ExecutionProvider" for name in ("CUDA", "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX", "CANN")
)
"""Those that are told the number of their device."""
_CUDA_OPTIONS = {
    # Workspaces are part of the budget: an exhaustive search allocates far more than it keeps.
    "cudnn_conv_algo_search": "HEURISTIC",
    # Grow by what is asked for, not by powers of two.
    "arena_extend_strategy": "kSameAsRequested",
}
_HINT = "write --provider cuda:0=TensorrtExecutionProvider, with options as in …,trt_fp16_enable=1"


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """An execution provider by ONNX Runtime's name for it."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_providers(given: ProviderOption) -> dict[str, ProviderChoice]:
    """Providers by device.

    Raises:
        InvalidOptionError: a text is not ``device=provider``, or a device stands twice.
    """
    found: dict[str, ProviderChoice] = {}
    for text in _texts(given):
        first, *rest = text.split(",")
        (device, name), options = _pair(first, text), dict(_pair(part, text) for part in rest)
        if device in found:
            raise InvalidOptionError(f"the device {device!r} has two providers", hint="keep one")
        found[device] = ProviderChoice(name, options)
    return found


def _texts(given: ProviderOption) -> Iterable[str]:
    if isinstance(given, Mapping):
        return [f"{device}={name}" for device, name in given.items()]
    return [given] if isinstance(given, str) else given or ()


def _pair(part: str, text: str) -> tuple[str, str]:
    name, _, value = (piece.strip() for piece in part.partition("="))
    if not name or not value:
        raise InvalidOptionError(f"the provider {text!r} is not device=provider[,option=value…]", hint=_HINT)
    return name, value


def provider_list(choice: ProviderChoice, device: str) -> list[Any]:
    """What ONNX Runtime takes: the choice, the CPU behind it."""
    index = {"device_id": device.partition(":")[2] or "0"} if choice.name in _INDEXED else {}
    behind = [] if choice.name == Provider.CPU else [Provider.CPU.value]
    return [(choice.name, {**index, **choice.options}), *behind]


def require_providers(
    plan: Plan, chosen: Mapping[str, ProviderChoice], available: Sequence[str], *, emulate: bool
) -> None:
    """Every choice is of a device of ``plan``, and this ONNX Runtime has it.

    Raises:
        InvalidOptionError: the plan has no such device, or it is emulated.
        DeviceUnavailableError: ONNX Runtime lacks the provider.
    """
    devices = [use.device for use in plan.devices]
    for device, choice in chosen.items():
        if device not in devices:
            raise InvalidOptionError(
                f"the plan has no device {device!r}", hint=f"its devices are {', '.join(map(repr, devices))}"
            )
        if emulate and device != devices[HOST]:
            raise InvalidOptionError(
                f"{device} is emulated: no {choice.name} runs there", hint="leave out --emulate or --provider"
            )
        if choice.name not in available:
            raise DeviceUnavailableError(
                f"this ONNX Runtime has no {choice.name}", hint=f"it has {', '.join(available)}"
            )


def require_cuda_graphs(plan: Plan, *, emulate: bool) -> None:
    """Some partition of ``plan`` runs on CUDA, and can be captured.

    Raises:
        DeviceUnavailableError: none does.
    """
    on_cuda = [part for part in plan.partitions if plan.device(part.device).provider == Provider.CUDA]
    if emulate or not on_cuda:
        why = "it is emulated here" if emulate else "the plan has none there"
        raise DeviceUnavailableError(
            f"--cuda-graph captures partitions that run on CUDA, and {why}", hint="leave out --cuda-graph"
        )
    if not any(is_capturable(plan, part) for part in on_cuda):
        raise DeviceUnavailableError(
            f"none of the {len(on_cuda)} partitions on CUDA can be captured: each has values on the host, or of a size "
            "that only a run tells",
            hint="leave out --cuda-graph",
        )


def is_capturable(plan: Plan, partition: Partition) -> bool:
    """Whether all that ``partition`` reads and makes has one size, and one address on its device, in every run."""
    specs = {spec.name: spec for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    placed = {(buffer.value, buffer.device) for buffer in plan.buffers}
    borders = (*partition.inputs, *partition.outputs)
    fixed = all(specs[name].form is ValueForm.STATIC and (name, partition.device) in placed for name in borders)
    return (
        fixed
        and not (partition.host_inputs or partition.host_outputs)
        and plan.device(partition.device).provider == Provider.CUDA
    )


def planned_providers(wanted: Provider, device: str, options: Mapping[str, str] = MappingProxyType({})) -> list[Any]:
    """What ONNX Runtime takes for a device of the plan; ``options`` are CUDA's."""
    if wanted is Provider.CPU:
        return [Provider.CPU.value]
    index = device.partition(":")[2] or "0"
    return [(Provider.CUDA.value, {"device_id": index, **_CUDA_OPTIONS, **options}), Provider.CPU.value]
