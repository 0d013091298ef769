"""Small problems are searched and bounded as large ones are."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hetpart.partitioner.search import enumerated


@pytest.fixture(autouse=True, scope="module")
def none_enumerated() -> Generator[None]:
    """Else nothing that can be compared with the best of all placements would go through search and bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumerated, "MOST_OPS", -1)
        yield
