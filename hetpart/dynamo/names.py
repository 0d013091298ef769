"""From the places where Dynamo finds a module or tensor to the names that the user has for them."""

from __future__ import annotations

import re

_PARTS = re.compile(r"\['([^']*)'\]|\[(\d+)\]|(\w+)")
_NOT_THE_USERS = frozenset({"L", "G", "self", "_modules", "_parameters", "_buffers"})
"""Frames, what a module calls itself, and where it keeps what it owns."""


def dotted(source: str) -> str:
    """``encoder.fc1.weight`` for ``L['self']._modules['encoder']._modules['fc1']._parameters['weight']``."""
    parts = ("".join(found) for found in _PARTS.findall(source))
    return ".".join(part for part in parts if part not in _NOT_THE_USERS)
