# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false
"""A plan that is called with tensors and gives tensors, as the module was that it is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from hetpart.errors import HetpartError, InvalidFeedError
from hetpart.frontend.assumed import argument_names
from hetpart.frontend.caches import grow, has_caches
from hetpart.frontend.calls import complex_of
from hetpart.pytorch.structure import difference, ordered_as, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetpart.frontend.model import ExportedModel
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.runtime.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """How the arguments and results of a call are told apart."""

    inputs: Sequence[str]
    """Names of the flattened arguments, in order; ``""`` for a constant."""
    constants: Mapping[int, Any]
    """Of the arguments, by place: what they were in the example."""
    in_spec: pytree.TreeSpec | None
    outputs: Sequence[ConstantArgument | str]
    """In order: a constant, or what the plan calls the result."""
    out_spec: pytree.TreeSpec | None
    """``None`` where the program has more results than its module returned."""
    numbers: frozenset[str]
    """Results that are Python's numbers."""
    complexes: frozenset[str]
    """Results that are complex: in the plan they are pairs of real numbers."""
    names: Sequence[str]
    """What the module calls the arguments, those by position first; as far as the program knows."""
    written: Mapping[str, str]
    """Arguments that a call changes: the name, and what the plan calls the new content."""

    @classmethod
    def of(cls, exported: ExportedModel, returned: Sequence[str]) -> Signature:
        """Of the program as it was captured; ``returned`` are the plan's results, in order."""
        given = [spec.arg for spec in exported.program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
        names = _input_names(exported.original)
        inputs = ["" if isinstance(arg, ConstantArgument) else arg.name for arg in given]
        results, named, written = iter(returned), list[ConstantArgument | str](), dict[str, str]()
        numbers: set[str] = set()
        complexes: set[str] = set()
        values = {node.name: node.meta.get("val") for node in exported.original.graph.nodes}
        for spec in exported.original.graph_signature.output_specs:
            result = spec.arg if isinstance(spec.arg, ConstantArgument) else next(results)
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                written[inputs[names.index(str(spec.target))]] = str(result)
                continue
            named.append(result)
            if isinstance(result, str) and _is_complex(values.get(spec.arg.name)):
                complexes.add(result)
            if isinstance(result, str) and not isinstance(spec.arg, TensorArgument):
                numbers.add(result)
        spec = exported.original.call_spec
        whole = spec.out_spec is not None and spec.out_spec.num_leaves == len(named)
        out_spec = plain(spec.out_spec) if whole and spec.out_spec is not None else None
        constants = {place: arg.value for place, arg in enumerate(given) if isinstance(arg, ConstantArgument)}
        return cls(
            inputs, constants, spec.in_spec, named, out_spec, frozenset(numbers),
            frozenset(complexes), argument_names(exported.original), written,
        )  # fmt: skip

    def flattened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name.

        Raises:
            InvalidFeedError: they are not those of the example call.
        """
        args, kwargs = self._as_in_example(args, kwargs)
        order = self._kwarg_order()
        ordered = {name: kwargs[name] for name in order if name in kwargs} | dict(kwargs)
        call = (tuple(args), ordered)
        flat, spec = pytree.tree_flatten(call if self.in_spec is None else ordered_as(call, self.in_spec))
        if self.in_spec is not None and spec != self.in_spec:
            raise InvalidFeedError(
                f"the call has {_shown(spec)}, and the plan was made for {_shown(self.in_spec)}:"
                f" {difference(spec, self.in_spec)}",
                hint="call it as in the example: the same by position, the same by name, lists as long",
            )
        for place, constant in self.constants.items():
            if flat[place] is not constant and (type(flat[place]) is not type(constant) or flat[place] != constant):
                raise InvalidFeedError(
                    f"argument {place} is {flat[place]!r}, and the plan was made for {constant!r}",
                    hint="partition the module again with the other value",
                )
        return {name: value for name, value in zip(self.inputs, flat, strict=True) if name}

    def _as_in_example(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """A call with by position what the example has so, where it is given by name, and the other way round."""
        if self.in_spec is None:
            return args, kwargs
        number = self.in_spec.children()[0].num_children
        names, moved = self.names, dict(kwargs)
        if any(name in kwargs for name in names[: len(args)]):
            return args, kwargs
        moved |= zip(names[number:], args[number:], strict=False)
        given = [*args[:number]]
        while len(given) < min(number, len(names)) and names[len(given)] in moved:
            given.append(moved.pop(names[len(given)]))
        return (*given, *args[max(number, len(names)) :]), moved

    def _kwarg_order(self) -> Sequence[str]:
        if self.in_spec is None:
            return ()
        context = self.in_spec.children()[1].context
        return tuple(context) if isinstance(context, list | tuple) else ()

    def restored(self, results: Mapping[str, torch.Tensor]) -> Any:
        """The results of a call in the structure that the module returns."""
        flat = [
            item.value if isinstance(item, ConstantArgument) else self._result(item, results[item])
            for item in self.outputs
        ]
        return tuple(flat) if self.out_spec is None else pytree.tree_unflatten(flat, self.out_spec)

    def _result(self, name: str, tensor: torch.Tensor) -> Any:
        found = complex_of(tensor) if name in self.complexes else tensor
        return found.item() if name in self.numbers else found


def _shown(spec: pytree.TreeSpec) -> str:
    """How many arguments a call has by position, which by name, and how many values are in them."""
    by_position, by_name = spec.children()
    names = ", ".join(map(str, by_name.context or ())) or "none"
    return f"{spec.num_leaves} values (arguments by position: {by_position.num_children}, by name: {names})"


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def _input_names(program: torch.export.ExportedProgram) -> list[str]:
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


class PlannedModule(torch.nn.Module):
    """A module that runs a plan. Tensors go in and come out without a copy where the plan keeps them on the host."""

    def __init__(self, signature: Signature, session: Session) -> None:
        super().__init__()
        self.session = session
        self._signature = signature
        self._inputs = {spec.name for spec in session.plan.inputs}
        results = (*signature.outputs, *signature.written.values())
        self._wanted = list(dict.fromkeys(name for name in results if isinstance(name, str)))
        self._has_caches = has_caches(signature.in_spec)
        self.training = False

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse what copies and pickles: a session is of this process."""
        raise HetpartError(
            "a plan's module cannot be copied or pickled: its session holds devices and memory of this process",
            hint="planned.to_module() makes another; planned.save(path) keeps the plan for another process",
        )

    @torch.compiler.disable  # in code that torch.compile reads the graph breaks here: a session is no code of PyTorch's
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns for the call.

        Raises:
            InvalidFeedError: a tensor has another shape or type than planned, or arguments are not the example's.
        """
        given = self._signature.flattened(args, kwargs)
        feeds = {name: shared(value) for name, value in given.items() if name in self._inputs}
        arrays = self.session.run(self._wanted, feeds)
        results = {name: tensor_of(array) for name, array in zip(self._wanted, arrays, strict=True)}
        with torch.no_grad():
            for name, content in self._signature.written.items():
                new = results[content]
                given[name].copy_(complex_of(new) if given[name].is_complex() else new)
        made = self._signature.restored(results)
        if self._has_caches:
            grow((args, kwargs), made)
        return made


def planned_module(exported: ExportedModel, imported: ImportedModel, session: Session) -> PlannedModule:
    """The plan of ``session`` as a module."""
    return PlannedModule(Signature.of(exported, imported.returned), session)


def shared(value: Any) -> Any:
    """What a session takes without a copy; a number as an array of one."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    plain = value.detach().contiguous()
    return torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain


def owned(made: Sequence[torch.Tensor], given: Sequence[Any]) -> list[torch.Tensor]:
    """``made``, each in memory of its own: what only passes a value on returns the value that it was given."""
    taken = {_address(value) for value in given}
    return [_apart(tensor, taken) for tensor in made]


def _apart(tensor: torch.Tensor, taken: set[int]) -> torch.Tensor:
    found = tensor.clone() if tensor.data_ptr() in taken else tensor
    taken.add(found.data_ptr())
    return found


def _address(value: Any) -> int:
    return value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """A tensor that shares the memory of ``array``, whose element type NumPy may lack."""
    dtype = getattr(torch, array.dtype.name)
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(dtype)
