"""Arguments that share memory, where code writes to one: as eager PyTorch has it, or refused in words."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from torch import Tensor

from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidFeedError

Pair = tuple[Tensor, Tensor]


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def written(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y.clone()


def read(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def compiled(code: Callable[..., Any]) -> Any:
    return torch.compile(code, backend=backend, options={"hardware": "emulated", "emulate": True})


def parts(x: slice, y: slice, size: int = 8) -> Pair:
    base = torch.arange(float(size))
    return base[x], base[y]


def assert_as_eager(run: Any, code: Callable[..., Tensor], made: Callable[[], Pair]) -> None:
    """The same results, and the same in the arguments."""
    expected, given = made(), made()
    assert torch.equal(run(*given), code(*expected))
    assert torch.equal(given[0], expected[0])
    assert torch.equal(given[1], expected[1])


@torch.no_grad()
def test_memory_that_is_shared_as_in_the_first_call_is_as_in_eager_code() -> None:
    run = compiled(written)
    for _ in range(2):
        assert_as_eager(run, written, lambda: parts(slice(0, 5), slice(3, 8)))


@torch.no_grad()
@pytest.mark.parametrize("other", [(slice(1, 6), slice(3, 8)), (slice(0, 5), slice(0, 5)), (slice(2, 7), slice(3, 8))])
@pytest.mark.parametrize("is_first_apart", [True, False])
def test_memory_that_is_shared_otherwise_is_refused(other: tuple[slice, slice], is_first_apart: bool) -> None:
    run = compiled(written)
    if is_first_apart:
        assert_as_eager(run, written, lambda: (torch.zeros(5), torch.ones(5)))
    else:
        assert_as_eager(run, written, lambda: parts(slice(0, 5), slice(3, 8)))
    with pytest.raises(InvalidFeedError, match="of which one is written to, share memory") as refused:
        run(*parts(*other))
    assert "clone" in str(refused.value)
    torch.compiler.reset()
    assert_as_eager(run, written, lambda: (parts(*other)[0], parts(*other)[1].clone()))


@torch.no_grad()
def test_what_lies_beside_and_what_nobody_writes_to_is_not() -> None:
    run = compiled(written)
    for rows in ((0, 3), (3, 6), (5, 2)):
        assert_as_eager(run, written, lambda at=rows: parts(slice(at[0], at[0] + 2), slice(at[1], at[1] + 2)))
    run = compiled(read)
    for other in ((slice(0, 5), slice(3, 8)), (slice(1, 6), slice(3, 8)), (slice(0, 5), slice(0, 5))):
        assert_as_eager(run, read, lambda at=other: parts(*at))


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad])
def test_views_whose_memory_the_trace_knows_not_whole_are_refused_in_words(context: Callable[[], Any]) -> None:
    with context():
        x, y = (part.detach() for part in parts(slice(0, 5), slice(3, 8), 10))
        with pytest.raises(InvalidFeedError, match="arguments that share memory, of which one is written to"):
            compiled(written)(x, y)


@torch.no_grad()
def test_memory_that_pytorch_does_not_know_to_be_shared_is_refused() -> None:
    x, y = parts(slice(0, 5), slice(3, 8))
    with pytest.raises(InvalidFeedError, match="unknown to PyTorch"):
        compiled(written)(torch.from_dlpack(x), torch.from_dlpack(y))
