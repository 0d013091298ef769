"""What `torch.compile` copies of tensors that a plan has on the host: a call takes the memory of its results."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hetpart.dynamo.backend import hetpart as backend

EMULATED = "emulated"
NBYTES = 32 * 2**20
SEEN: list[int] = []


@torch.library.custom_op("hetpart_copies::flipped", mutates_args=())
def flipped(x: Tensor, weight: Tensor) -> Tensor:
    """What PyTorch runs in a plan sees where its tensors lie."""
    SEEN.extend((x.data_ptr(), weight.data_ptr()))
    return x != weight if x.dtype is torch.bool else x + weight


@flipped.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    del weight
    return torch.empty_like(x)


class Weighted(nn.Module):
    def __init__(self, code: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.code = code

    def forward(self, x: Tensor) -> Tensor:
        return self.code(x, self.weight)


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(module: nn.Module) -> Any:
    return torch.compile(module, backend=backend, options={"hardware": EMULATED, "placement": "all-cpu"})


@pytest.mark.parametrize(
    ("dtype", "code"), [(torch.float32, torch.add), (torch.int64, torch.add), (torch.bool, torch.logical_or)]
)
def test_a_call_takes_the_memory_of_its_result(dtype: torch.dtype, code: Callable[..., Tensor]) -> None:
    ones = torch.ones(NBYTES // dtype.itemsize, dtype=dtype)
    module, x = Weighted(code, ones), ones.clone()
    with torch.no_grad():
        run = compiled(module)
        first = run(x)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        second = run(x)
        taken = resident("VmHWM") - before
    torch.testing.assert_close(second, first)
    assert second.data_ptr() != first.data_ptr()
    assert taken < 1.5 * NBYTES


def resident(field: str) -> int:
    """Bytes of this process in memory: ``VmRSS`` those that are, ``VmHWM`` the most that were."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16, torch.float16])
def test_arguments_and_weights_are_read_where_the_caller_has_them(dtype: torch.dtype) -> None:
    weight, x = torch.ones(64, dtype=dtype), torch.ones(64, dtype=dtype)
    with torch.no_grad():
        run = torch.compile(Weighted(flipped, weight), backend=backend, options={"placement": "all-cpu"})
        run(x)
        SEEN.clear()
        run(x)
    assert [x.data_ptr(), weight.data_ptr()] == SEEN
