"""Whether a model is PyTorch's, and how such a one is called. Nothing here imports PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, TypedDict, cast

from hetpart.errors import HetpartError, InvalidOptionError

PROGRAM_SUFFIX = ".pt2"
"""Of the files that ``torch.export.save`` writes."""
_PACKAGES = ("torch", "onnxscript")
_TORCH_MODELS = frozenset({"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"})
_COMPILED = "torch._dynamo.eval_frame.OptimizedModule"
_INSTANCE = "give an instance of torch.nn.Module: of a class, what it makes; around a function, a module that calls it"


class ExampleOptions(TypedDict, total=False):
    """The keywords that say how a PyTorch model is called. They mean what they mean in ``hetpart.partition``."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    dynamic_shapes: Any
    weights: str | PathLike[str] | None


class Openness(Enum):
    """What becomes of the axes that ``dynamic_shapes`` of an example opens."""

    REQUIRED = "required"
    """They stay open, or the model is refused."""
    FOUND = "found"
    """Those stay open that the model's code leaves so; others are fixed."""
    NONE = "none"
    """All are fixed."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """How a PyTorch model is called, and where its weights lie."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dynamic_shapes: Any = None
    """As ``torch.export.export`` takes them; a name in the place of a ``Dim`` will do."""
    weights: Path | None = None
    """A folder of safetensors files, or one such file."""
    openness: Openness = Openness.REQUIRED

    @classmethod
    def of(cls, options: ExampleOptions) -> Example:
        """The options as they were given.

        Raises:
            InvalidOptionError: ``kwargs`` has no names, or ``weights`` names no file or folder.
        """
        return cls(
            _positional(options.get("args", ())),
            _by_name(options.get("kwargs")),
            options.get("dynamic_shapes"),
            _path(options.get("weights")),
        )

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were given."""
        found: dict[str, Any] = {"args": self.args, "kwargs": self.kwargs, "dynamic_shapes": self.dynamic_shapes}
        return (*(name for name, value in found.items() if value), *(["weights"] if self.weights else []))


def _positional(args: Any) -> tuple[Any, ...]:
    """``args`` as a tuple; a single tensor is one argument, as it is for ``torch.onnx.export``."""
    return tuple(cast("Sequence[Any]", args)) if isinstance(args, list | tuple) else (args,)


def _by_name(kwargs: object) -> dict[str, Any]:
    if kwargs is None:
        return {}
    given = cast("Mapping[Any, Any]", kwargs) if isinstance(kwargs, Mapping) else None
    if given is None or not all(isinstance(name, str) for name in given):
        raise InvalidOptionError(
            f"kwargs cannot be {shortened(cast('object', kwargs))}",
            hint='it is arguments by name: kwargs={"mask": mask}',
        )
    return dict(given)


def _path(weights: object) -> Path | None:
    if weights is None or isinstance(weights, str | PathLike):
        return None if weights is None else Path(cast("str | PathLike[str]", weights))
    raise InvalidOptionError(
        f"weights is of type {type(weights).__name__}, and a folder or file of safetensors is named by its path",
        hint="tensors in memory need no weights=: load them into the module, as module.load_state_dict does",
    )


def is_pytorch(model: object) -> bool:
    """Whether ``model`` is a module or an exported program, or the file of one."""
    if isinstance(model, str | PathLike):
        return Path(cast("str | PathLike[str]", model)).suffix == PROGRAM_SUFFIX
    return any(f"{base.__module__}.{base.__qualname__}" in _TORCH_MODELS for base in type(model).__mro__)


def uncompiled(model: Any) -> Any:
    """The module that ``torch.compile`` was given, where ``model`` is what that returned; otherwise ``model``."""
    is_compiled = any(f"{base.__module__}.{base.__qualname__}" == _COMPILED for base in type(model).__mro__)
    return uncompiled(model._orig_mod) if is_compiled else model


def require_onnx(model: object, example: Example) -> None:
    """Refuse options of PyTorch models where ``model`` is none, or exported already.

    Raises:
        InvalidOptionError: one was given.
    """
    if example.given:
        raise InvalidOptionError(
            f"{', '.join(example.given)} {'is' if len(example.given) == 1 else 'are'} for PyTorch models that are to be"
            f" exported, and the model is {_described(model)}",
            hint=_INSTANCE if callable(model) else "leave them out; shape= binds dimensions",
        )


def _described(model: object) -> str:
    if isinstance(model, type):
        return f"the class {model.__name__}"
    return repr(str(cast("object", model))) if isinstance(model, str | PathLike) else f"of type {type(model).__name__}"


def require_pytorch(what: str) -> None:
    """Refuse ``what`` where PyTorch or its ONNX exporter is not installed.

    Raises:
        HetpartError: so it is.
    """
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise HetpartError(
            f"{what} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint="pip install 'hetpart[torch]'",
        )
