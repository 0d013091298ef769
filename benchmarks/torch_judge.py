# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Whether what a plan returns for a call of an operator is what PyTorch returns.

PyTorch says less than one result of some calls: with oneDNN it has other kernels than without, ``topk`` and ``sort``
name any of several equal elements, and in sums of another order it is as far from the exact result as anybody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-7, torch.float16: 2e-2, torch.bfloat16: 2e-2}
"""Relative and absolute, of sums in another order; in half precision relative to the largest of all elements. Complex
numbers have that of their parts."""
_AS_FAR = 2.0
"""How many times as far from the result in float64 as PyTorch's own a result may be."""
_ROUNDINGS = 16
"""How many roundings of the largest of its elements, as a Fourier transform has one for every step."""
_NAME_ANY = (torch.topk, torch.sort, torch.argsort)
"""Functions that name elements, and any of those that are equal."""
_LONGEST = 160


class Called(torch.nn.Module):
    """A call of an operator: its tensors are the arguments, and the rest of it is constant."""

    def __init__(self, operator: Any, sample: tuple[Any, ...]) -> None:
        super().__init__()
        self.operator = operator
        leaves, self.spec = pytree.tree_flatten(sample)
        self.rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.held = [leaves[place].detach() for place in self.places]

    def given(self) -> list[torch.Tensor]:
        """Its arguments, as they were."""
        return [tensor.clone() for tensor in self.held]

    def forward(self, given: Any) -> Any:
        """What the operator returns."""
        leaves = list(self.rest)
        for place, tensor in zip(self.places, given, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(first, *args, **kwargs)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One call, and what eager PyTorch returns."""

    label: str
    kind: str
    """``sample``, or one of the kinds of hard numbers."""
    called: Called
    wanted: Any
    is_random: bool


def judged(case: Case, made: Any) -> str:
    """``equal``, or what is wrong."""
    found = compared(made, case.wanted, is_random=case.is_random)
    if found == "equal" or case.is_random:
        return found
    others = (compared(made, wanted) for wanted in _without_onednn(case))
    is_one = "equal" in others or _is_tie(case, made) or _is_as_near(case, made)
    return "equal" if is_one else found


def compared(made: Any, wanted: Any, *, is_random: bool = False) -> str:
    """Whether results are the same."""
    ours, theirs = pytree.tree_leaves(made), pytree.tree_leaves(wanted)
    if len(ours) != len(theirs):
        return f"differs: {len(ours)} results, and {len(theirs)} of PyTorch's"
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor) and is_random:
            one, other = torch.zeros_like(one), torch.zeros_like(other)
        try:
            torch.testing.assert_close(one, other, equal_nan=True, **_tolerance(other))
        except AssertionError as error:
            return f"differs: {' '.join(str(error).split())[:_LONGEST]}"
    return "equal"


def _tolerance(value: Any) -> dict[str, float]:
    real = value.dtype.to_real() if isinstance(value, torch.Tensor) and value.is_complex() else None
    dtype = real or getattr(value, "dtype", torch.int64)
    found = TOLERANCE.get(dtype)
    if found is None:
        return {}
    largest = value.abs()[value.isfinite()].max().item() if dtype.itemsize == 2 and value.isfinite().any() else 1.0
    return {"rtol": found, "atol": found * max(1.0, largest)}


def _without_onednn(case: Case) -> Iterator[Any]:
    with contextlib.suppress(Exception), torch.backends.mkldnn.flags(enabled=False):
        yield case.called(case.called.given())


def _is_tie(case: Case, made: Any) -> bool:
    """Whether the elements that are named are as large as those that PyTorch names, and all else is equal."""
    if case.called.operator not in _NAME_ANY:
        return False
    given = case.called.held[0]
    (*values, places), (*wanted, named) = pytree.tree_leaves(made), pytree.tree_leaves(case.wanted)
    if places.shape != named.shape or compared(values, wanted) != "equal":
        return False
    axes = [axis for axis in range(given.dim()) if given.shape[axis] != places.shape[axis]] or range(given.dim())
    return any(torch.equal(given.gather(axis, places), given.gather(axis, named)) for axis in axes)


def _is_as_near(case: Case, made: Any) -> bool:
    """Whether results in floating point are as near to those in float64 as PyTorch's own."""
    try:
        exact = pytree.tree_leaves(case.called([_in_float64(tensor) for tensor in case.called.given()]))
    except Exception:  # noqa: BLE001 - some take no float64
        return False
    ours, theirs = pytree.tree_leaves(made), pytree.tree_leaves(case.wanted)
    return len(ours) == len(exact) == len(theirs) and all(map(_near, ours, theirs, exact))


def _in_float64(tensor: torch.Tensor) -> torch.Tensor:
    return (
        tensor if tensor.dtype is torch.bool else tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    )


def _near(one: Any, other: Any, exact: Any) -> bool:
    if not isinstance(other, torch.Tensor) or not (other.is_floating_point() or other.is_complex()):
        return compared(one, other) == "equal"
    if one.dtype is not other.dtype or not one.shape == other.shape == exact.shape:
        return False
    relative, real = _tolerance(other)["rtol"], other.dtype.to_real()
    wide = torch.complex128 if other.is_complex() else torch.float64
    one, rounded, exact = one.to(wide), exact.to(other.dtype).to(wide), exact.to(wide)
    other = other.to(wide)
    both = exact.isfinite() & other.isfinite()
    farthest = (other - exact).abs()[both].max().item() if both.any() else 0.0
    largest = exact.abs()[both].max().item() if both.any() else 0.0
    allowed = max(_AS_FAR * farthest, _ROUNDINGS * torch.finfo(real).eps * largest)
    near = (one - exact).abs() <= allowed + relative * exact.abs()
    same = one.isclose(rounded, equal_nan=True) | one.isclose(other, equal_nan=True)
    return bool((near | same).all())
