"""Bytes that rotary embeddings read of their tables, against what a Gather of the same rows reads; flops by hand."""

from __future__ import annotations

import pytest

from hetpart.cost_model.formulas import work_of
from hetpart.graph.ir import Graph, Shape
from tests.cost_model.build import single

F32 = "float32"


def bytes_read(graph: Graph) -> int:
    work = work_of(graph.ops[0], graph)
    assert work is not None
    return work.bytes_read


@pytest.mark.parametrize(("positions", "tokens"), [(131_072, 1), (131_072, 7), (4, 7)])
def test_rotary_tables_are_read_by_the_row(positions: int, tokens: int) -> None:
    """As many bytes as a Gather reads of them, a decoder's token or a prompt's."""
    ids, table = ((2, tokens), "int64"), ((positions, 64), F32)
    rows = bytes_read(single("Gather", [table, ids], (2, tokens, 64))) - 2 * tokens * 8
    heads = ((2, 8, tokens, 128), F32)
    orders: dict[str, list[tuple[Shape | None, str] | None]] = {
        "": [heads, table, table, ids],
        "com.microsoft": [heads, ids, table, table],
    }
    for domain, inputs in orders.items():
        read = bytes_read(single("RotaryEmbedding", inputs, heads[0], domain=domain, version=23))
        assert read == 2 * 8 * tokens * 128 * 4 + 2 * tokens * 8 + 2 * min(rows, positions * 64 * 4)


def test_attention_that_rotates_reads_a_row_of_its_tables_a_token() -> None:
    sizes: list[Shape] = [(1, 1, 256), (1, 1, 64), (1, 1, 64), (1, 2, 63, 32), (1, 2, 63, 32)]
    plain: list[tuple[Shape | None, str] | None] = [*((size, F32) for size in sizes), ((1,), "int32"), ((), "int32")]
    made: list[Shape | None] = [(1, 1, 256), (1, 2, 64, 32), (1, 2, 64, 32)]
    table = ((131_072, 16), F32)
    rotating, without = (
        bytes_read(single("GroupQueryAttention", inputs, made, domain="com.microsoft", num_heads=8, kv_num_heads=2))
        for inputs in ([*plain, table, table], plain)
    )
    assert rotating == without + 2 * 16 * 4


@pytest.mark.parametrize(("domain", "version"), [("", 23), ("com.microsoft", 1)])
@pytest.mark.parametrize(("turned", "part"), [(0, 16), (4, 4), (16, 16)])
@pytest.mark.parametrize("by_head", [True, False])
def test_only_the_elements_that_turn_are_counted(
    domain: str, version: int, turned: int, part: int, *, by_head: bool
) -> None:
    """Each is a sum of two products."""
    batch, heads, tokens, size = 2, 4, 8, 16
    shape = (batch, heads, tokens, size) if by_head else (batch, tokens, heads * size)
    graph = single(
        "RotaryEmbedding", [(shape, F32)], shape, domain=domain, version=version,
        rotary_embedding_dim=turned, num_heads=heads,
    )  # fmt: skip
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == 3 * batch * heads * tokens * part
