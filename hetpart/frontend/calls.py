# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportPrivateUsage=false, reportUnknownLambdaType=false
"""Calls of PyTorch's operators as text, written when a program is translated and read where a partition makes them.

A call is JSON: ``{"op": "aten::_linalg_eigh", "args": [{"input": 0}, "L", true], "kwargs": {}}``. What is no JSON is an
object of one entry: an input of the node by its number, and whether it is a tensor, a complex one or a number; such a
tensor and its steps in memory; the two parts of a complex number; or a type, device, layout or memory format by its
name. Reading one runs nothing but operators that PyTorch knows by name. One that writes to its arguments is called with
copies of them, and those are results of the call too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from hetpart.errors import ExecutionError, InvalidBundleError
from hetpart.frontend.autocast import off
from hetpart.frontend.copying import call_on_copies, called_by, written_arguments
from hetpart.frontend.laid import Told, laid, told_to

_KINDS = ("cpu", "cuda")
_REGISTER = {
    "hetpart::": "hetpart.training.registered",
    "hetpart_bodies::": "hetpart.frontend.higher",
    "hetpart_packed::": "hetpart.frontend.packed",
    "hetpart_formed::": "hetpart.frontend.formed",
}
"""How operators of hetpart are called, and the modules that register them. They lie above this one."""
NO_OUTS: Mapping[str, torch.Tensor] = {}
_SHIPPED = frozenset({"aten", "prims", "prim"})
"""Namespaces of PyTorch's own. Whether they have kernels for CUDA only a PyTorch that is built for it knows."""
_FUNCTIONAL = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")
"""Keys of kernels for every device."""
_BY_NAME = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}
"""Kinds of arguments that are attributes of the module ``torch``."""


def target_named(name: str) -> OpOverload | None:
    """The operator that is called ``ns::op`` or ``ns::op.overload``; ``None`` where PyTorch knows none."""
    namespace, _, rest = name.partition("::")
    packet_name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None) if packet_name else None
    found = getattr(packet, overload or "default", None)
    return found if isinstance(found, OpOverload) else None


def known_target(name: str) -> OpOverload:
    """The operator that a bundle calls by ``name``.

    Raises:
        InvalidBundleError: it opens files.
        ExecutionError: PyTorch knows no such operator.
    """
    target = target_named(name)
    registers = next((module for namespace, module in _REGISTER.items() if name.startswith(namespace)), None)
    if target is None and registers is not None:
        import_module(registers)
        target = target_named(name)
    if target is None:
        raise ExecutionError(
            f"PyTorch {torch.__version__} knows no operator {name}",
            hint="import the module that registers it before the bundle is opened: --import my_ops, or in Python",
        )
    if any(argument.name == "filename" for argument in target._schema.arguments):
        raise InvalidBundleError(
            f"the bundle calls {name}, which opens files", hint="no model needs that: ask where it comes from"
        )
    return target


def runs_on(target: OpOverload) -> tuple[str, ...]:
    """The kinds of device that ``target`` has a kernel for; of PyTorch's own operators it is assumed to have all."""
    target = called_by(target)
    if target.namespace in _SHIPPED or any(_has_kernel(target, key) for key in _FUNCTIONAL):
        return _KINDS
    return tuple(kind for kind in _KINDS if _has_kernel(target, kind.upper())) or _KINDS


def _has_kernel(target: OpOverload, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key))


def in_place(target: OpOverload) -> OpOverload | None:
    """The operator that does what ``target`` does over what it is given, named as PyTorch names such.

    ``None`` where there is none, or it does not write all that ``target`` returns.
    """
    packet, overload = target.name().partition(".")[::2]
    found = target_named(f"{packet}_{'.' if overload else ''}{overload}") if target.namespace not in _SHIPPED else None
    written = [] if found is None else [a for a in found._schema.arguments if a.alias_info and a.alias_info.is_write]
    return found if written and len(written) == len(target._schema.returns) else None


def filling(target: OpOverload) -> OpOverload | None:
    """The overload ``out`` of ``target``, which writes what that returns to memory that it is given.

    ``None`` where there is none. Those of PyTorch's own would make what they are given another size.
    """
    found = None if target.namespace in _SHIPPED else target_named(f"{target.name().partition('.')[0]}.out")
    return found if found is not None and len(_outs(found)) == len(target._schema.returns) else None


def _outs(target: OpOverload) -> list[str]:
    return [argument.name for argument in target._schema.arguments if argument.is_out]


def overwritten(target: OpOverload, args: Sequence[Any]) -> tuple[int, ...]:
    """For every result, the number of the input that ``in_place`` writes it over; ``args`` are those of its text."""
    found = in_place(target)
    if found is None:
        return ()
    flags = [bool(a.alias_info and a.alias_info.is_write) for a in found._schema.arguments]
    written = [given for given, is_written in zip(args, flags, strict=False) if is_written]
    if any("laid" in given for given in written):  # its own memory is of another form than what the plan has
        return ()
    return tuple(given["tensor"] for given in written)


def written(node: Node) -> str:
    """The call that ``node`` makes.

    Raises:
        TypeError: an argument is of a kind that has no text.
    """
    assert isinstance(node.target, OpOverload)
    target = called_by(node.target)
    numbers = iter(range(2**31))
    told = told_to(target, node.args)
    args = [_written(argument, numbers, told) for argument in node.args]
    kwargs = {name: _written(argument, numbers, told) for name, argument in node.kwargs.items()}
    return json.dumps({"op": target.name(), "args": args, "kwargs": kwargs})


def _written(argument: Any, numbers: Iterator[int], told: Told) -> Any:
    if isinstance(argument, Node):
        return _input(argument.meta["val"], numbers, told)
    if isinstance(argument, list | tuple):
        return [_written(part, numbers, told) for part in argument]
    if argument is None or isinstance(argument, bool | int | float | str):
        return argument
    if isinstance(argument, complex):
        return {"literal": [argument.real, argument.imag]}
    if isinstance(argument, torch.device):
        return {"device": argument.type}
    for kind, known in _BY_NAME.items():
        if isinstance(argument, known):
            return {kind: str(argument).removeprefix("torch.")}
    raise TypeError(f"an argument of type {type(argument).__name__}")


def _input(value: Any, numbers: Iterator[int], told: Told) -> Any:
    """Inputs are numbered in the order in which the exporter's translations are given them."""
    if isinstance(value, list | tuple):
        return [_input(part, numbers, told) for part in cast("Sequence[Any]", value)]
    if isinstance(value, torch.Tensor):
        given, steps = {"complex" if value.is_complex() else "tensor": next(numbers)}, told(value)
        return given if steps is None else {"laid": [given, steps]}
    return {"number": next(numbers)}


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that can be made."""

    target: OpOverload
    args: list[Any]
    kwargs: dict[str, Any]
    over: tuple[int, ...] = field(init=False)
    """For every result, the number of the input that it may be written over; none where none may."""
    _over_it: OpOverload | None = field(init=False)
    _into: OpOverload | None = field(init=False)
    """What writes over its inputs, and what fills given memory. Schemas take long to read: once, not in every run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "over", overwritten(self.target, self.args))
        object.__setattr__(self, "_over_it", in_place(self.target))
        object.__setattr__(self, "_into", filling(self.target))

    @classmethod
    def read(cls, text: str) -> Call:
        """Of its text.

        Raises:
            InvalidBundleError: it is none, or opens files.
            ExecutionError: PyTorch knows no such operator.
        """
        try:
            found: Any = json.loads(text)
            name, args, kwargs = str(found["op"]), list(found["args"]), dict(found["kwargs"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidBundleError(
                f"{text[:80]!r} is no call of a PyTorch operator", hint="`hetpart partition` the model again"
            ) from error
        return cls(known_target(name), args, kwargs)

    @property
    def writes(self) -> bool:
        """Whether it can write its results to given memory."""
        return bool(self.over) or self._into is not None

    def write(self, inputs: Sequence[torch.Tensor], into: Sequence[torch.Tensor], device: torch.device) -> None:
        """Write the results ``into`` these, each the input itself that it replaces or other memory of its form."""
        if self._into is not None:
            self._made(self._into, inputs, device, dict(zip(_outs(self._into), into, strict=True)))
            return
        given = list(inputs)
        for number, place in zip(self.over, into, strict=True):
            if place.data_ptr() != given[number].data_ptr():
                place.copy_(given[number])
            given[number] = place
        assert self._over_it is not None
        self._made(self._over_it, given, device)

    def __call__(self, inputs: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
        """What the operator returns, tensor by tensor; complex ones as pairs of real numbers, as ONNX has them."""
        made = self._made(self.target, inputs, device)
        return [_plain(result) for result in _flat(made)]

    def _made(
        self,
        target: OpOverload,
        inputs: Sequence[torch.Tensor],
        device: torch.device,
        outs: Mapping[str, Any] = NO_OUTS,
    ) -> Any:

        def given(argument: Any) -> Any:
            if isinstance(argument, list):
                return [given(part) for part in cast("list[Any]", argument)]
            if isinstance(argument, dict):
                ((kind, what),) = cast("dict[str, Any]", argument).items()
                return _GIVEN[kind](what, inputs, device)
            return argument

        args, kwargs = given(self.args), {name: given(argument) for name, argument in self.kwargs.items()}
        with torch.no_grad(), _without_modes(), off():  # the plan has the casts of its code
            if target is self.target and written_arguments(target):
                return call_on_copies(target, args, kwargs)
            return target(*args, **kwargs, **outs)


def _without_modes() -> AbstractContextManager[Any]:
    """Out of the caller's dispatch modes, as AOTAutograd's own: under one, nothing with ``vmap`` in it runs."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()


def _flat(made: Any) -> Iterator[Any]:
    for part in made if isinstance(made, list | tuple) else (made,):
        yield from _flat(part) if isinstance(part, list | tuple) else (part,)


def _plain(result: Any) -> torch.Tensor:
    if result is None:  # a gradient that the call did not ask for, and nothing reads
        return torch.empty(0)
    tensor = torch.as_tensor(result)
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def complex_of(pairs: torch.Tensor) -> torch.Tensor:
    """The complex numbers of ``pairs``, in their memory.

    Of no elements ONNX Runtime lets the strides be any, and PyTorch wants those of pairs.
    """
    return torch.view_as_complex(pairs if pairs.numel() else torch.empty(pairs.shape, dtype=pairs.dtype))


def _laid(what: Any, inputs: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    given, steps = what
    ((kind, number),) = given.items()
    return laid(_GIVEN[kind](number, inputs, device), steps)


def _named(name: str, inputs: Sequence[torch.Tensor], device: torch.device) -> Any:
    del inputs, device
    return getattr(torch, name)


_GIVEN: Mapping[str, Callable[[Any, Sequence[torch.Tensor], torch.device], Any]] = {
    "tensor": lambda number, inputs, _: inputs[number],
    "complex": lambda number, inputs, _: complex_of(inputs[number].contiguous()),
    "laid": _laid,
    "number": lambda number, inputs, _: inputs[number].item(),
    "literal": lambda parts, _, __: complex(*parts),
    # A program names the device that it was traced on, and a plan decides where the call is made.
    "device": lambda _, __, device: device,
    **dict.fromkeys(_BY_NAME, _named),
}
