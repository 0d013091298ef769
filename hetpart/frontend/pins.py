"""Pins on PyTorch code: modules and blocks that are to run on a device, told before a model is exported."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from hetpart.config import DEVICE_PATTERN, device_name
from hetpart.errors import HetpartWarning, InvalidOptionError
from hetpart.frontend.example import is_pytorch, uncompiled
from hetpart.frontend.pinned_code import CUSTOM_KEY, PIN_HINT, PinnedCode, is_compiled, noted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import torch

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True, eq=False)
class _Pin:
    """One of those on a module: two on one device are two."""

    device: str


_pinned: WeakKeyDictionary[Any, list[_Pin]] = WeakKeyDictionary()
"""The last is in force."""


@overload
def pin(target: torch.nn.Module, device: str | torch.device) -> PinnedModule: ...
@overload
def pin(target: str | torch.device) -> PinnedCode: ...
def pin(
    target: torch.nn.Module | str | torch.device, device: str | torch.device | None = None
) -> PinnedModule | PinnedCode:
    """Keep what a module computes, or a block of code, on ``device`` in every plan that is made from now on.

    Example:
        >>> hetpart.pin(model.encoder, "cpu")  # until .remove()
        >>> with hetpart.pin(model.fc1, "cpu"):  # while plans are made in here
        ...     plan = hetpart.partition(model, args=(x,))
        >>> @hetpart.pin(model.fc1, "cpu")  # while this function, which makes plans, runs
        ... def planned(x): ...
        >>> @hetpart.pin("cpu")  # of a function or a module's class; or `with hetpart.pin("cpu"):` in forward
        ... def lookup(table, ids): ...

    Of two pins on one op the inner one counts: of a module inside a pinned one, and of code inside both.

    Raises:
        InvalidOptionError: ``device`` is none, or ``target`` neither a module nor a device.
    """
    if device is None and (isinstance(target, str) or type(target).__name__ == "device"):
        return noted(_device(target)) if is_compiled() else PinnedCode(_device(target))
    if device is None or not is_pytorch(target) or isinstance(target, str) or not hasattr(target, "named_modules"):
        raise InvalidOptionError(f"pin cannot be given {_shown(target)}, {_shown(device)}", hint=PIN_HINT)
    return PinnedModule(cast("torch.nn.Module", uncompiled(target)), _device(device))


def _shown(given: object) -> str:
    """``given``, which may be a tensor or a module's method, on one line."""
    return repr(given) if isinstance(given, str | int | float | None) else f"a value of type {type(given).__name__}"


def _in_force() -> list[tuple[torch.nn.Module, str]]:
    """Every pinned module, and where it is to run."""
    return [(module, pins[-1].device) for module, pins in _pinned.items()]


def _device(given: object) -> str:
    """The name of a device, which may be PyTorch's."""
    text = given if isinstance(given, str) else str(given) if type(given).__name__ == "device" else ""
    name = device_name(text)
    if not DEVICE_PATTERN.fullmatch(name):
        raise InvalidOptionError(f"{_shown(given)} is no device", hint=PIN_HINT)
    return name


class PinnedModule:
    """A pin on a module, in force until it is removed or its ``with`` block ends."""

    def __init__(self, module: torch.nn.Module, device: str) -> None:
        self._module, self.device = module, device
        self._pin, self._entered = _Pin(device), 0
        self._put()

    def _put(self) -> None:
        pins = _pinned.setdefault(self._module, [])
        if self._pin not in pins:
            pins.append(self._pin)

    def __call__(self, func: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        """``func`` with the pin in force in every call of it, and no longer outside."""
        self.remove()
        module, device = self._module, self.device

        @wraps(func)
        def pinned(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
            with PinnedModule(module, device):
                return func(*args, **kwargs)

        return pinned

    def remove(self) -> None:
        """Let the module be where other pins have it, if there are any."""
        pins = _pinned.get(self._module, [])
        if self._pin in pins:
            pins.remove(self._pin)
        if not pins:
            _pinned.pop(self._module, None)

    def __enter__(self) -> Self:
        self._put()
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            self.remove()


def pinned_weights(names: Sequence[str], weights: Sequence[torch.Tensor]) -> dict[str, str]:
    """The same of pinned modules that own some of ``weights``, which are called ``names``: by those they are known."""
    found: dict[str, str] = {}
    for module, device in _in_force():
        own = {id(tensor): name for name, tensor in _tensors(module)}
        for name, weight in zip(names, weights, strict=True):
            inside = f".{own.get(id(weight), name)}"
            if id(weight) in own and f".{name}".endswith(inside):
                found[name.removesuffix(inside[1:]).removesuffix(".")] = device
    return found


def pinned_without_weights(modules: Mapping[str, int]) -> dict[str, str]:
    """The same of pinned modules without parameters, by the identities of the ``modules`` that lie at paths."""
    devices = {id(module): device for module, device in _in_force() if next(module.parameters(), None) is None}
    return {path: devices[module] for path, module in modules.items() if module in devices}


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def pinned_in(source: torch.nn.Module | torch.export.ExportedProgram | None) -> dict[str, str]:
    """The pinned modules in ``source``, each under all its paths, with their devices.

    A program has no modules, but their paths, classes and parameters: by those they are found again. Of one without
    parameters, which may be any of its class, a ``HetpartWarning`` says that its pin is not followed.
    """
    if source is None or not _pinned:
        return {}
    if hasattr(source, "named_modules"):
        named = cast("Iterable[tuple[str, Any]]", cast("torch.nn.Module", source).named_modules(remove_duplicate=False))
        return {path: _pinned[module][-1].device for path, module in named if module in _pinned}
    return _pinned_in_program(cast("torch.export.ExportedProgram", source))


def warn_of_unfollowed(source: object, scopes: AbstractSet[str]) -> None:
    """Warn of every pinned module in ``source``, a module, none of whose ops there is; ops lie in ``scopes``."""
    if not _pinned or not hasattr(source, "named_modules"):
        return
    paths: dict[int, list[str]] = {}
    named = cast("Iterable[tuple[str, Any]]", cast("torch.nn.Module", source).named_modules(remove_duplicate=False))
    for path, module in named:
        paths.setdefault(id(module), []).append(path)
    for module, device in _in_force():
        known = paths.get(id(module), [])
        if known and not any(_is_inside(scope, path) for scope in scopes for path in known):
            warnings.warn(
                f"hetpart.pin of {known[0]!r} to {device} is not followed: no op lies in that module"
                "\n  hint: pin the module whose forward is called; one that shares its weights is another module",
                HetpartWarning,
                stacklevel=2,
            )


def _is_inside(scope: str, path: str) -> bool:
    return not path or f"{scope}.".startswith(f"{path}.")


def _pinned_in_program(program: torch.export.ExportedProgram) -> dict[str, str]:
    kinds = _kinds(program)
    found: dict[str, str] = {}
    for module, device in _in_force():
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        own = dict(module.named_parameters())
        paths = [path for path, known in kinds.items() if known == kind and _has(program, path, own)]
        if paths and not own:
            warnings.warn(
                f"hetpart.pin of a {type(module).__name__} is not followed: which one it is, no exported program tells,"
                f" for it has no parameters\n  hint: give the module itself, or pin={f'{paths[0]}.*={device}'!r}",
                HetpartWarning,
                stacklevel=2,
            )
            continue
        found |= dict.fromkeys(paths, device)
    return found


def _kinds(program: torch.export.ExportedProgram) -> dict[str, str]:
    """The class of every module in ``program``, by its path."""
    nodes = cast("Iterable[Any]", program.graph.nodes)
    stacks = (cast("dict[str, tuple[str, Any]]", node.meta.get("nn_module_stack") or {}) for node in nodes)
    return {path.partition("@")[0]: str(kind) for stack in stacks for path, kind in stack.values()}


def _has(program: torch.export.ExportedProgram, path: str, parameters: Mapping[str, torch.Tensor]) -> bool:
    """Whether ``program`` has these very ``parameters`` in the module ``path``."""
    held = program.state_dict
    return all(held.get(f"{path}.{name}".lstrip(".")) is parameter for name, parameter in parameters.items())


def device_of(custom: object, path: str, pinned: dict[str, str]) -> str:
    """Where an op is pinned that has the note ``custom`` and lies in the module ``path``; ``""`` for nowhere."""
    if isinstance(custom, dict) and CUSTOM_KEY in custom:
        return str(cast("dict[str, object]", custom)[CUSTOM_KEY])
    names = path.split(".") if path else []
    prefixes = (".".join(names[:length]) for length in range(len(names), -1, -1))
    return next((pinned[prefix] for prefix in prefixes if prefix in pinned), "")
