# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""From the places where Dynamo finds a module or tensor to the names that the user has for them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch._dynamo.eval_frame import OptimizedModule

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


_CALL = torch.nn.Module._call_impl.__code__


@dataclass(frozen=True, slots=True)
class Names:
    """What the user calls modules and tensors, by what they are: Dynamo knows the variables that hold them."""

    modules: Mapping[int, str] = field(default_factory=dict[int, str])
    """By identity, the paths in the module whose code is compiled."""
    tensors: Mapping[int, str] = field(default_factory=dict[int, str])

    @classmethod
    def of_the_call(cls) -> Names:
        """Those of the module that is being called: Dynamo compiles code when it is."""
        root = _called_module()
        if root is None:
            return cls()
        tensors = chain(root.named_parameters(), root.named_buffers())
        return cls(
            {id(module): path for path, module in root.named_modules()}, {id(tensor): name for name, tensor in tensors}
        )

    def of_module(self, key: str, source: str) -> str:
        """Of a module by Dynamo's note: its identity, behind an ``@`` which call of it, and where it was found."""
        identity = key.partition("@")[0]
        return self.modules.get(int(identity) if identity.isdigit() else 0, dotted(source))

    def of_tensor(self, tensor: object, source: str) -> str:
        """Of an argument of a graph."""
        return self.tensors.get(id(tensor), dotted(source))


def _called_module() -> torch.nn.Module | None:
    frame = sys._getframe()
    while frame is not None and frame.f_code is not _CALL:  # a look at the locals of others would keep them alive
        frame = frame.f_back
    owner: torch.nn.Module | None = None if frame is None else frame.f_locals["self"]
    return owner._orig_mod if isinstance(owner, OptimizedModule) else owner
