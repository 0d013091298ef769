"""Numbers of the code beside float64 tensors: all digits of eager PyTorch's results, on both roads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from tests.pytorch.models import Called

EMULATED = "emulated"
ROWS = (torch.arange(64, dtype=torch.float64).sin() * 3).reshape(8, 8)
CLOSE = {"rtol": 1e-14, "atol": 1e-15}
"""Of float64, whose last place is 2e-16; a number that went through float32 is off by 1e-8."""


def numbers(x: Tensor) -> tuple[Tensor, ...]:
    return x + 1e-5, torch.add(x, x, alpha=0.1), 0.1 * x, x / 0.3, x.clamp(-0.1, 0.7), torch.full_like(x, 0.1)


def activations(x: Tensor) -> tuple[Tensor, ...]:
    made = functional.leaky_relu(x, 0.01), functional.elu(x, 0.3), functional.selu(x), functional.celu(x, 0.7)
    return *made, functional.hardsigmoid(x), functional.hardswish(x), functional.gelu(x, approximate="tanh")


def norms(x: Tensor) -> tuple[Tensor, ...]:
    learned = functional.batch_norm(x * 1e-2, x[0] * 1e-2, x[1].abs() * 1e-4, x[2], x[3], False, 0.1, 1e-5)
    pictures = x.reshape(2, 4, 8) * 1e-2
    return (
        learned,
        functional.batch_norm(x * 1e-2, None, None, training=True),
        functional.layer_norm(x * 1e-2, [8], x[0], x[1]),
        functional.group_norm(pictures, 2),
        functional.instance_norm(pictures),
        functional.rms_norm(x * 1e-2, [8], x[0], 1e-5),
    )


def by_hand(x: Tensor) -> Tensor:
    """What ONNX Runtime takes for a normalisation of layers."""
    x = x * 1e-2
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x - mean).pow(2).mean(-1, keepdim=True) + 1e-5) * ROWS[0] + ROWS[1]


def products(x: Tensor) -> tuple[Tensor, ...]:
    heads = x.reshape(1, 2, 4, 8)
    attended = functional.scaled_dot_product_attention(heads, heads, heads, scale=0.3)
    return torch.addmm(x, x, x, beta=0.3, alpha=0.1), (x @ x.t()) * 0.3, attended, torch.baddbmm(
        heads[0, :, :, :4], heads[0], heads[0].mT, alpha=0.1
    )  # fmt: skip


def in_branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 1e3, lambda x: x * 0.1, lambda x: functional.leaky_relu(x, 0.01) + 1e-5, (x,))


def beyond_float32(x: Tensor) -> tuple[Tensor, ...]:
    return (x * 1e300).isfinite(), (x.long() * 0.1), torch.arange(0, 1, 0.1, dtype=x.dtype), torch.complex(x, x) * 0.1


def resized(x: Tensor) -> tuple[Tensor, ...]:
    """Parts of a whole, of which ONNX's schemas do not tell the type."""
    upper, lower = (x + 0.5).split([2, 6])
    return functional.interpolate(upper.reshape(1, 2, 2, 4), (5, 3), mode="bilinear"), lower * 2


GROUPS: dict[str, Sequence[Callable[..., Any]]] = {
    "whole": (numbers, by_hand, beyond_float32),
    "in parts": (activations, norms, products),
    "in branches": (in_branches,),
    "resized": (resized,),
}
"""By how a program is treated that they are in."""


@pytest.mark.parametrize("codes", GROUPS.values(), ids=GROUPS)
def test_a_number_beside_float64_has_all_its_digits(codes: Sequence[Callable[..., Any]]) -> None:
    def code(x: Tensor) -> dict[str, Any]:
        return {each.__name__: each(x) for each in codes}

    torch._dynamo.reset()
    with torch.no_grad():
        wanted = code(ROWS)
        planned = hetpart.partition(Called(code), args=(ROWS,), hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(ROWS), wanted, **CLOSE)
        compiled = torch.compile(code, backend=backend, options={"hardware": EMULATED, "emulate": True})
        torch.testing.assert_close(compiled(ROWS), wanted, **CLOSE)


def test_a_number_that_a_size_tells_has_all_its_digits() -> None:
    def code(x: Tensor) -> Tensor:
        return x / (x.shape[0] / 3) + x.shape[0] * 0.1

    given = ROWS[:7]
    shapes = {"given": ({0: "rows"},)}
    planned = hetpart.partition(Called(code), args=(given,), dynamic_shapes=shapes, hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(given), code(given), **CLOSE)
    torch._dynamo.reset()
    compiled = torch.compile(code, backend=backend, dynamic=True, options={"hardware": EMULATED, "emulate": True})
    with torch.no_grad():
        torch.testing.assert_close(compiled(given), code(given), **CLOSE)


def test_a_number_in_float32_stays_one() -> None:
    model = Called(lambda x: (x.float() * 0.1).double() + torch.tensor(0.1))
    planned = hetpart.partition(model, args=(ROWS,), hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(ROWS), model(ROWS), **CLOSE)
