"""Which devices PyTorch has a kernel on, for an operator that it runs itself."""

from __future__ import annotations

from hetpart.devices import Provider
from hetpart.graph.calls import RUNS_ON
from hetpart.graph.ir import Op

_KINDS = {Provider.CPU: "cpu", Provider.CUDA: "cuda"}


def missing_in_pytorch(provider: Provider, op: Op) -> str | None:
    """Why PyTorch cannot run ``op`` on the devices of ``provider``, in words; None where it can."""
    kind, able = _KINDS[provider], op.attributes.get(RUNS_ON, ())
    return None if isinstance(able, tuple) and kind in able else f"PyTorch has no {kind} kernel for {op.op_type}"
