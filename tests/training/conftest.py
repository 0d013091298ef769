<<<<<<< HEAD
from __future__ import annotations

from collections.abc import Iterator
=======
"""Steps that are captured once in a test run."""

from __future__ import annotations

from collections.abc import Generator
>>>>>>> 7ed4125 (training: a step is compiled, placed and run)

import pytest
import torch

<<<<<<< HEAD

@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors are tiny here, and threads that wait for one another on busy cores take seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
=======
from tests.pytorch.conftest import one_registry

__all__ = ["one_registry"]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Generator[None]:
    """Tensors of a few hundred elements are not worth waking a second thread for."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
>>>>>>> 7ed4125 (training: a step is compiled, placed and run)
