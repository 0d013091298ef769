from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.pytorch.conftest import one_registry

__all__ = ["one_registry"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors are tiny here, and threads that wait for one another on busy cores take seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
