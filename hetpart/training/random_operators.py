# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false, reportPrivateImportUsage=false
"""PyTorch operators of a training step that draw numbers: by a seed, the number of the call, and a salt of their own.

``hetpart::keep(seed, size, p, salt)`` says what a dropout keeps, ``hetpart::draw(seed, size, dtype, law, given, salt)``
draws by a law of ``LAWS``, and ``hetpart::draw_by(seed, by, law, salt)`` by one of ``LAWS_BY``, whose parameters are
``by``. ``seed`` is int64: the user's, and the number of the call. Numbers of one call and step are the same wherever
they are drawn on one kind of device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from hetpart.training.operators import NAMESPACE

if TYPE_CHECKING:
    from torch._ops import OpOverload


def _integers(made: torch.Tensor, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    return made.random_(int(low), int(high), generator=generator)


def _order(made: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return made.copy_(torch.randperm(len(made), generator=generator, device=made.device))


LAWS: Mapping[str, Callable[..., torch.Tensor]] = {
    "uniform": torch.Tensor.uniform_,
    "normal": torch.Tensor.normal_,
    "exponential": torch.Tensor.exponential_,
    "log_normal": torch.Tensor.log_normal_,
    "cauchy": torch.Tensor.cauchy_,
    "geometric": torch.Tensor.geometric_,
    "any": torch.Tensor.random_,
    "integers": _integers,
    "order": _order,
}
"""What fills a tensor, given numbers and a generator."""
LAWS_BY: Mapping[str, Callable[..., torch.Tensor]] = {
    "bernoulli": torch.bernoulli,
    "poisson": torch.poisson,
    "gamma": torch._standard_gamma,
    "dirichlet": torch._sample_dirichlet,
}
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_WORD = 2**64


def keep_operator() -> OpOverload:
    """The operator that says which elements a dropout keeps."""
    return torch.ops.hetpart.keep.default


def draw_operator() -> OpOverload:
    """The operator that draws by a law of ``LAWS``."""
    return torch.ops.hetpart.draw.default


def draw_by_operator() -> OpOverload:
    """The operator that draws by a law of ``LAWS_BY``."""
    return torch.ops.hetpart.draw_by.default


def _generator(seed: torch.Tensor, salt: int) -> torch.Generator:
    base, call = seed.tolist()
    generator = torch.Generator(seed.device)
    return generator.manual_seed(
        (base * 0x9E3779B97F4A7C15 + call * 0xBF58476D1CE4E5B9 + salt * 0x94D049BB133111EB) % _WORD
    )


def _keep(seed: torch.Tensor, size: list[int], p: float, salt: int) -> torch.Tensor:
    return torch.rand(size, generator=_generator(seed, salt), device=seed.device) >= p


def _kept(seed: torch.Tensor, size: list[int], p: float, salt: int) -> torch.Tensor:
    del p, salt
    return seed.new_empty(size, dtype=torch.bool)


def _draw(
    seed: torch.Tensor, size: list[int], dtype: torch.dtype, law: str, given: list[float], salt: int
) -> torch.Tensor:
    made = torch.empty(size, dtype=dtype, device=seed.device)
    return LAWS[law](made, *given, generator=_generator(seed, salt))


def _drawn(seed: torch.Tensor, size: list[int], dtype: torch.dtype, *_: Any) -> torch.Tensor:
    return seed.new_empty(size, dtype=dtype)


def _draw_by(seed: torch.Tensor, by: torch.Tensor, law: str, salt: int) -> torch.Tensor:
    return LAWS_BY[law](by, generator=_generator(seed, salt))


def _drawn_by(seed: torch.Tensor, by: torch.Tensor, law: str, salt: int) -> torch.Tensor:
    del seed, law, salt
    return torch.empty_like(by)


def _register() -> None:
    for schema, run, form in (
        ("keep(Tensor seed, int[] size, float p, int salt) -> Tensor", _keep, _kept),
        ("draw(Tensor seed, int[] size, ScalarType dtype, str law, float[] given, int salt) -> Tensor", _draw, _drawn),
        ("draw_by(Tensor seed, Tensor by, str law, int salt) -> Tensor", _draw_by, _drawn_by),
    ):
        name = schema.partition("(")[0]
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
        _LIBRARY.impl(name, form, "Meta")


_register()
