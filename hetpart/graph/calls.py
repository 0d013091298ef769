"""Operators that stay PyTorch's: nodes of a domain of hetpart's own, each with the call that it stands for."""

from __future__ import annotations

CALL_DOMAIN = "hetpart.torch"
"""Of such nodes. Their operators are called as PyTorch writes them: ``aten._linalg_eigh.default``."""
CALL = "hetpart.call"
"""The attribute that holds the call: JSON, as ``hetpart.frontend.calls`` writes and reads it."""
RUNS_ON = "runs_on"
"""The attribute that holds the kinds of device that the operator has a kernel for."""

OVERWRITES = "overwrites"
"""The attribute that holds, for every result, the number of the input that it may be written over; none where the
operator has no form that does so."""


def is_called(model: bytes) -> bool:
    """Whether a serialized model has such nodes. Every part of a model that has some names their domain."""
    return CALL.encode() in model
