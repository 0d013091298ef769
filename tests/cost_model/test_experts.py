"""Flops of quantized mixtures of experts, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hetpart.cost_model.formulas import work_of
from hetpart.graph.ir import Shape
from tests.cost_model.build import single

F32 = "float32"


@pytest.mark.parametrize(
    ("bits", "options"),
    [((4, 4), {}), ((8, 8), {"expert_weight_bits": 8}), ((2, 2), {"expert_weight_bits": 2}),
     ((8, 8), {"fc1_expert_weight_bits": 8, "fc2_expert_weight_bits": 8}), ((4, 8), {"fc2_expert_weight_bits": 8}),
     ((8, 8), {"quant_type": "fp8"})],
)  # fmt: skip
def test_quantized_mixtures_count_as_many_weights_at_any_width(bits: tuple[int, int], options: dict[str, Any]) -> None:
    experts, hidden, inner, tokens = 4, 64, 128, 8
    first, second = ((experts, rows, width * each // 8)
                     for rows, width, each in zip((inner, hidden), (hidden, inner), bits, strict=True))  # fmt: skip
    inputs: list[tuple[Shape | None, str] | None] = [
        ((tokens, hidden), F32),
        ((tokens, experts), F32),
        (first, "uint8"),
        None,
        None,
        (second, "uint8"),
    ]
    graph = single("QMoE", inputs, (tokens, hidden), domain="com.microsoft", k=2, **options)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    assert work.flops == 2 * tokens * 2 * 2 * inner * hidden
