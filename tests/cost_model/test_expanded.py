"""Convolutions without blocks of channels take what ONNX Runtime took for their columns, products and results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetpart.cost_model.annotate import annotate
from hetpart.cost_model.expanded import expanded_seconds
from hetpart.cost_model.formulas.convolution import column_elements, is_expanded
from hetpart.cost_model.formulas.operands import Operands
from hetpart.graph.ir import Graph
from hetpart.rates import RateTable
from tests.calibration.test_from_profile import made_up_rates
from tests.cost_model.build import Builder
from tests.cost_model.test_measured import with_rates

Sizes = tuple[int, ...]
FACTOR = 2.0
COPYING = RateTable(((1024.0, 65_536.0, 4_194_304.0),), (3e-7, 5.6e-6, 8e-4))
FITTED = made_up_rates()
GENOA = replace(
    FITTED,
    tables={**FITTED.tables, "relu": COPYING},
    warm_tables={**FITTED.warm_tables, "relu": COPYING},
    peak_flops={"float32": 1.13e11},
    launch_seconds=2e-7,
    bandwidth=3.3e10,
)
"""Of a core of an EPYC 9004, as calibrated."""
MEASURED: dict[str, tuple[Sizes, Sizes, int, float]] = {
    "groups of a long line": ((1, 256, 50), (256, 16, 128), 16, 1.378),
    "groups of a line": ((1, 256, 50), (256, 16, 31), 16, 0.268),
    "channels of a line, 31": ((1, 256, 400), (256, 1, 31), 256, 0.422),
    "channels of a line, 7": ((1, 256, 400), (256, 1, 7), 256, 0.112),
    "channels of a line, 3": ((1, 256, 400), (256, 1, 3), 256, 0.070),
    "channels of a volume": ((1, 32, 16, 28, 28), (32, 1, 3, 3, 3), 32, 2.802),
    "volumes": ((1, 32, 16, 56, 56), (64, 32, 3, 3, 3), 1, 70.65),
    "volumes of many channels": ((1, 64, 32, 32, 16), (64, 64, 3, 3, 3), 1, 52.6),
    "volumes of few channels": ((1, 3, 8, 112, 112), (32, 3, 3, 3, 3), 1, 6.615),
    "lines": ((1, 256, 400), (512, 256, 3), 1, 2.94),
    "lines of few channels": ((1, 64, 400), (64, 64, 3), 1, 0.104),
    "lines of one channel": ((1, 1, 16000), (512, 1, 10), 1, 2.462),
    "groups of four": ((1, 128, 56, 56), (128, 4, 3, 3), 32, 1.054),
    "groups of eight": ((1, 256, 28, 28), (256, 8, 3, 3), 32, 0.763),
    "groups of twelve": ((1, 48, 28, 28), (48, 12, 3, 3), 4, 0.165),
    "groups of four, one place": ((1, 128, 56, 56), (128, 4, 1, 1), 32, 0.078),
}
"""Image, filters, groups, and milliseconds of ONNX Runtime 1.31 on one core of an EPYC 9004."""


def convolution(image: Sizes, filters: Sizes, groups: int) -> Graph:
    build = Builder()
    made = (image[0], filters[0], *image[2:])
    return build.graph(build.op("Conv", [build.value(image), build.weight(filters)], made, group=groups))


@pytest.mark.parametrize("name", MEASURED)
def test_seconds_are_of_the_order_measured(name: str) -> None:
    *sizes, milliseconds = MEASURED[name]
    graph = convolution(*sizes)
    assert is_expanded(Operands.of(graph.ops[0], graph))
    found = 1e3 * expanded_seconds(graph.ops[0], graph, GENOA)
    assert milliseconds / FACTOR < found < FACTOR * milliseconds


def test_a_calibrated_processor_takes_them() -> None:
    graph = convolution(*MEASURED["groups of four"][:3])
    (cost,) = annotate(graph, with_rates(GENOA)).ops
    assert cost.seconds[0] == pytest.approx(expanded_seconds(graph.ops[0], graph, GENOA))


@pytest.mark.parametrize(
    ("image", "filters", "groups"),
    [
        ((1, 128, 56, 56), (128, 128, 3, 3), 1),
        ((1, 3, 224, 224), (64, 3, 7, 7), 1),
        ((1, 128, 56, 56), (128, 1, 3, 3), 128),
        ((1, 128, 56, 56), (128, 32, 3, 3), 4),
        ((1, 256, 400), (512, 256, 1), 1),
    ],
)
def test_blocks_of_channels_and_plain_products_have_no_columns(image: Sizes, filters: Sizes, groups: int) -> None:
    graph = convolution(image, filters, groups)
    assert not is_expanded(Operands.of(graph.ops[0], graph))


def test_a_column_holds_what_a_window_sees() -> None:
    """Two groups of three channels, windows of five, ten places."""
    graph = convolution((1, 6, 10), (4, 3, 5), 2)
    assert column_elements(Operands.of(graph.ops[0], graph)) == 2 * 3 * 5 * 10
