"""Numbers of the code that tensors in half precision cannot hold, against eager PyTorch, on both roads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from tests.pytorch.models import Called, Piece, together

EMULATED = "emulated"
SMALL = torch.tensor([0.0, 0.001, 0.01, -0.02, 0.1, 0.2])
HEADS = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
LINE = torch.linspace(-3, 3, 301)
MASK = torch.tensor([[1.0, 1.0, 0.0, 1.0]])


def attended(q: Tensor, mask: Tensor) -> Tensor:
    least = torch.finfo(torch.float32).min if q.dtype is torch.bfloat16 else -1e9
    scores = q @ q.transpose(-2, -1) / 8**0.5 + (1.0 - mask)[:, None, None, :] * least
    return torch.softmax(scores, -1) @ q


CASES: dict[str, dict[str, Piece]] = {
    "made of others": {
        "attention by hand": (attended, (HEADS, MASK)),
        "products": (
            lambda x: (x * 1e5, x * 2**20, x * 65536.0 / 65536.0, (x * 1e4) * 1e-4 * 1e3, x * (1 / 3)),
            (SMALL,),
        ),
        "quotients": (lambda x: ((x * 1e-3) / 1e-8, x * 1e4 / 1e5, 1e5 / (x + 1)), (SMALL,)),
        "sums": (lambda x: (x + 1e-9, x - 70000, 70001 - x, torch.add(x, x, alpha=0.1), x + 0.3, 0.3 - x), (SMALL,)),
        "comparisons": (
            lambda x: (x == 0.1, x != 0.1, x < 0.1, x <= 0.1, x > 0.1, x >= 0.1, x.eq(-0.02), x.gt(0.001), x > 1e6),
            (SMALL,),
        ),
        "rounding down": (lambda x: (x * 10 // 0.1, (x * 10) % 0.3), (SMALL,)),
        "on either side of a number": (
            lambda x: ((x - 0.1).sign(), (0.1 - x).sign(), (x + 70000) * 0, torch.sub(x, 0.1, alpha=1.0).sign()),
            (SMALL,),
        ),
        "remainders": (lambda x: (x % 0.1, torch.fmod(x, 0.01), torch.remainder(0.3, x + 0.1)), (SMALL,)),
        "steps that are rounded once": (
            lambda x: (
                torch.sinc(x),
                torch.log1p(x.abs()),
                torch.expm1(x),
                nn.functional.softplus(x, 0.3, 0.7),
                torch.lerp(x, x.flip(0) * 3, 0.3),
                torch.logit(x, 0.1),
            ),
            (LINE,),
        ),
    },
    "changed in place": {
        "rounding towards zero": (
            lambda x: (
                torch.div(x, 0.1, rounding_mode="trunc"),
                torch.div(x, -0.02, rounding_mode="trunc"),
                x.clone().div_(0.1, rounding_mode="trunc"),
                x.clone().floor_divide_(0.1),
            ),
            (SMALL,),
        ),
        "changed in place": (lambda x: x.clone().mul_(1e5).add_(0.3), (SMALL,)),
    },
    "held": {
        "numbers that they hold": (lambda x: (x * 2 + 0.5, x / 4 - 1, x > 0.5, 2 - x), (SMALL,)),
    },
}
"""By how a program is treated that they are in."""
HALVES = (torch.float16, torch.bfloat16)


def narrowed(pieces: Mapping[str, Piece], dtype: torch.dtype) -> dict[str, Piece]:
    return {
        f"{name} in {dtype}": (code, tuple(each.to(dtype) for each in wide)) for name, (code, wide) in pieces.items()
    }


def assert_close(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """ONNX Runtime rounds less often where one product follows another."""
    assert found.keys() == wanted.keys()
    for dtype, rtol, atol in ((torch.float16, 0.003, 0.0002), (torch.bfloat16, 0.03, 0.002)):
        names = [name for name in wanted if name.endswith(str(dtype))]
        ours, theirs = ({name: each[name] for name in names} for each in (found, wanted))
        torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=rtol, atol=atol)


@pytest.mark.parametrize("group", CASES)
def test_they_count_as_in_eager_pytorch(group: str) -> None:
    code, given = together({name: piece for dtype in HALVES for name, piece in narrowed(CASES[group], dtype).items()})
    wanted = code(*given)
    planned = hetpart.partition(Called(code), args=given, placement="random:1", hardware=EMULATED)
    assert_close(planned.to_module(emulate=True)(*given), wanted)
    torch.compiler.reset()
    compiled = torch.compile(code, backend=backend, options={"emulate": True, "hardware": EMULATED})
    with torch.no_grad():
        assert_close(compiled(*given), wanted)
