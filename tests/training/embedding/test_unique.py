from __future__ import annotations

import pytest
import torch

from hetpart.errors import InvalidFeedError
from hetpart.training.embedding import unique


@pytest.mark.parametrize("shape", [(), (1,), (40,), (7, 5), (2, 3, 4), (0,), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_it_is_what_pytorch_finds(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    ids = torch.randint(0, 13, shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    found = unique(ids)
    expected, inverse = torch.unique(ids.to(torch.int64), return_inverse=True)
    assert torch.equal(found.ids, expected)
    assert torch.equal(found.inverse(), inverse)


def test_positions_of_one_id_keep_the_order_of_the_batch() -> None:
    found = unique(torch.tensor([[5, 2], [5, 9], [2, 5]]))
    assert found.ids.tolist() == [2, 5, 9]
    assert found.order.tolist() == [1, 4, 0, 2, 5, 3]
    assert found.starts.tolist() == [0, 2, 5, 6]


@pytest.mark.parametrize("ids", [[-1, 3], [0, 10]])
def test_an_id_that_is_no_row_is_named(ids: list[int]) -> None:
    with pytest.raises(InvalidFeedError, match=f"ids go from {ids[0]} to {ids[1]}, and the table has 10 rows"):
        unique(torch.tensor(ids)).require_rows(torch.zeros(10, 2))


def test_no_ids_are_rows_of_any_table() -> None:
    unique(torch.empty(0, dtype=torch.int64)).require_rows(torch.zeros(1, 2))
