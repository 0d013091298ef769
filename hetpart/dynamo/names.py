"""From the places where Dynamo finds a module or tensor to the names that the user has for them."""

from __future__ import annotations

import re

_PARTS = re.compile(r"\['([^']*)'\]|\[(\d+)\]|(\w+)")
_FRAMES = ("L", "G")
_ITSELF = ("self", "fn")
"""What a module calls itself, and what PyTorch calls one whose own code it leaves out."""
_TABLES = frozenset({"_modules", "_parameters", "_buffers"})
"""Where a module keeps what it owns."""


def dotted(source: str) -> str:
    """``encoder.fc1.weight`` for ``L['self']._modules['encoder']._modules['fc1']._parameters['weight']``."""
    parts = ["".join(found) for found in _PARTS.findall(source)]
    for own in (_FRAMES, _ITSELF):
        parts = parts[1:] if parts and parts[0] in own else parts
    return ".".join(part for part in parts if part not in _TABLES)
