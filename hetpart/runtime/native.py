# pyright: reportMissingTypeStubs=false
"""A plan in one ONNX Runtime session, which places nodes by their annotations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetpart.devices import HOST
from hetpart.errors import DeviceUnavailableError
from hetpart.plan.bundle import Bundle
from hetpart.plan.model import Partition, Residency, ResidencyState
from hetpart.runtime.sessions import SessionSettings, annotated_session, require_runtime

if TYPE_CHECKING:
    import onnxruntime

_FIRST_VERSION = (1, 25)
"""Of ONNX Runtime that reads annotations; older ones pass over them."""


def native_bundle(bundle: Bundle) -> Bundle:
    """``bundle`` as one partition: what crosses devices inside it is ONNX Runtime's to copy.

    Raises:
        DeviceUnavailableError: this ONNX Runtime does not place nodes by annotations.
    """
    from hetpart.plan.emit import whole_model

    _require_annotations()
    plan = bundle.plan
    if not plan.partitions:
        return bundle
    whole = Partition(
        id=0,
        device=plan.devices[HOST].device,
        ops=tuple(op for partition in plan.partitions for op in partition.ops),
        inputs=tuple(spec.name for spec in plan.inputs),
        host_inputs=(),
        outputs=tuple(spec.name for spec in plan.outputs),
        host_outputs=(),
        weights=tuple(dict.fromkeys(name for partition in plan.partitions for name in partition.weights)),
        seconds=plan.prediction.seconds,
        weight_bytes=sum(partition.weight_bytes for partition in plan.partitions),
        peak_bytes=max(partition.peak_bytes for partition in plan.partitions),
    )
    held = tuple(replace(residency, state=_held(residency)) for residency in plan.residencies)
    one = replace(
        plan,
        residencies=held,
        partitions=(whole,),
        values=(),
        transfers=(),
        buffers=(),
        timeline=None,
        passthrough={},
        states={},
        homes={},
    )
    return Bundle(one, (whole_model(bundle).SerializeToString(),), bundle.weights)


def _held(residency: Residency) -> ResidencyState:
    """One session streams nothing."""
    return ResidencyState.RESIDENT if residency.state is ResidencyState.STREAMED else residency.state


def _require_annotations() -> None:
    version = require_runtime().__version__
    if tuple(int(part) for part in version.split(".")[:2]) < _FIRST_VERSION:
        raise DeviceUnavailableError(
            f"ONNX Runtime {version} does not place nodes by annotations", hint="install 1.25 or newer"
        )


def open_native(
    bundle: Bundle, one: Bundle, settings: SessionSettings, *, own_rule: bool = False
) -> list[onnxruntime.InferenceSession]:
    """The one session of ``one``, which is ``native_bundle`` of ``bundle``, on all devices of the plan.

    Args:
        bundle: The plan.
        one: The same as one partition.
        settings: Of the session.
        own_rule: Let ONNX Runtime fill the budget by its own rule instead of the plan's annotations.
    """
    from hetpart.plan.emit import annotated_options, budget_options

    if not bundle.plan.partitions:
        return []
    used = [use for use in bundle.plan.devices[1:] if own_rule or use.device in bundle.plan.used_devices]
    use = used[0] if used else bundle.plan.devices[HOST]
    return [annotated_session(one, use, settings, (budget_options if own_rule else annotated_options)(bundle))]
