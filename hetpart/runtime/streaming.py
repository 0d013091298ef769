# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Streamed weights: on the host for as long as a bundle is loaded, copied in every run as any value is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetpart.errors import ExecutionError, InvalidBundleError
from hetpart.plan.bundle import STREAMED_FILE
from hetpart.plan.streamed import streamed_weights
from hetpart.runtime.lent import lent_weights
from hetpart.runtime.refusals import is_damage, ort_hint, ort_message
from hetpart.runtime.sessions import host_session
from hetpart.runtime.values import extent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetpart.plan.bundle import Bundle

_REPARTITION = "`hetpart partition` the model again"


@dataclass(frozen=True, slots=True)
class StreamedWeights:
    """Weights that lie on the host, and whoever keeps their bytes there."""

    addresses: Mapping[str, int]
    held: tuple[Any, ...] = ()

    @classmethod
    def of(cls, bundle: Bundle) -> StreamedWeights:
        """The weights that the plan of ``bundle`` streams, those made from others made once.

        Raises:
            InvalidBundleError: the bundle does not hold them.
            ExecutionError: ONNX Runtime refuses them.
        """
        names = list(streamed_weights(bundle.plan))
        if not names:
            return cls({})
        if bundle.streamed is None:
            raise InvalidBundleError("the bundle lacks the weights that its plan streams", hint=_REPARTITION)
        lent = lent_weights(bundle)
        try:
            session = host_session(bundle.streamed, bundle.weights, lent)
            values = session.run_with_ort_values(names, {})
        except Exception as error:
            if is_damage(error):
                raise InvalidBundleError(
                    f"the bundle is damaged: {STREAMED_FILE} is no whole model ({ort_message(error)})",
                    hint=_REPARTITION,
                ) from error
            raise ExecutionError(
                f"ONNX Runtime cannot load the streamed weights: {ort_message(error)}",
                hint=ort_hint(error, "partition the model again with --no-stream"),
            ) from error
        addresses = dict(zip(names, (value.data_ptr() for value in values), strict=True))
        _require_sizes(bundle, dict(zip(names, values, strict=True)))
        # What a session returns of its own initializers lies in the session's memory.
        return cls(addresses, (session, lent, *values))


NO_WEIGHTS = StreamedWeights({})


def _require_sizes(bundle: Bundle, values: Mapping[str, Any]) -> None:
    """What is copied is as long as the plan says, or it would be read beyond its end."""
    specs = {spec.name: spec for spec in bundle.plan.values}
    for name, value in values.items():
        spec = specs[name]
        if extent(spec, value).nbytes != spec.nbytes:
            raise InvalidBundleError(
                f"the weight {name!r} has {extent(spec, value).nbytes:,} bytes, planned were {spec.nbytes:,}",
                hint=_REPARTITION,
            )
