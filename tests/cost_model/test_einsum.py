"""Einsum is priced as the products that ONNX Runtime runs, pair by pair, with the calls that each of them is."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hetpart.cost_model.einsum_calls import einsum_seconds
from hetpart.cost_model.formulas import work_of
from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.roofline import estimate
from hetpart.cost_model.work import Work
from tests.calibration.test_from_profile import WARM_SHARE, made_up_rates
from tests.cost_model.build import single

Sizes = tuple[int, ...]
SQUARE = (256, 256)
SUMMED: dict[str, tuple[Sizes, ...]] = {
    "ij,jk,kl->il": ((6, 7), (7, 8), (8, 9)),
    "bij,bjk,bil->bkl": ((2, 3, 4), (2, 4, 5), (2, 3, 6)),
    "bi,ij,bj->b": ((4, 5), (5, 6), (4, 6)),
    "bhqk,bkhd->bqhd": ((2, 3, 4, 5), (2, 5, 3, 6)),
    "...ij,...jk": ((7, 3, 4), (7, 4, 5)),
    "abc,cd,de,ae->b": ((2, 3, 4), (4, 5), (5, 6), (2, 6)),
    "ij,j->i": ((6, 7), (7,)),
}
MEASURED: dict[str, tuple[tuple[Sizes, ...], float]] = {
    "ij,jk,kl->il": ((SQUARE, SQUARE, SQUARE), 0.70e-3),
    "bij,bjk,bil->bkl": (((8, 128, 128),) * 3, 0.96e-3),
    "bi,ij,bj->b": (((256, 512), (512, 512), (256, 512)), 2.1e-3),
    "bij,bkl->bik": (((8, 64, 256), (8, 64, 256)), 0.58e-3),
    "ij,ij->ij": (((512, 1024), (512, 1024)), 105.8e-3),
    "bi,bi->b": (((512, 1024), (512, 1024)), 1.58e-3),
    "bij,bij->bj": (((8, 64, 256), (8, 64, 256)), 0.93e-3),
    "i,j->ij": (((1024,), (1024,)), 1.4e-3),
    "ij->ji": (((512, 1024),), 1.3e-3),
}
"""Seconds of ONNX Runtime 1.31 on one core of a 2.5 GHz Xeon with AVX-512, the least of 40 runs."""


def priced(equation: str, shapes: tuple[Sizes, ...]) -> tuple[Work, int]:
    """Its work, and what PyTorch counts when it goes from the left as well."""
    tensors = [torch.ones(shape) for shape in shapes]
    torch.backends.opt_einsum.enabled = False
    with FlopCounterMode(display=False) as counter:
        made = torch.einsum(equation, *tensors)
    graph = single("Einsum", [(shape, "float32") for shape in shapes], tuple(made.shape), equation=equation)
    work = work_of(graph.ops[0], graph)
    assert work is not None
    return work, counter.get_total_flops()


@pytest.mark.parametrize("equation", SUMMED)
def test_flops_are_those_that_torch_counts(equation: str) -> None:
    work, counted = priced(equation, SUMMED[equation])
    assert work.flops == counted > 0


def test_what_torch_does_not_count() -> None:
    """A sum is an addition an element, and a product without a sum a multiplication."""
    assert priced("ij->i", ((5, 6),))[0].flops == 5 * 6
    assert priced("ij->ji", ((5, 6),))[0].flops == 0
    assert priced("ij,ij->ij", ((5, 6), (5, 6)))[0].flops == 5 * 6
    work, counted = priced("bij,jk->ik", ((2, 3, 4), (4, 5)))
    assert work.flops == counted + 2 * 3 * 4


@pytest.mark.parametrize("equation", MEASURED)
def test_seconds_are_of_the_order_measured(equation: str) -> None:
    shapes, seconds = MEASURED[equation]
    machine = load_machine("l4+generic-avx512", threads=1)
    predicted = estimate(priced(equation, shapes)[0], machine.devices[0], "float32").seconds
    assert seconds / 2.5 < predicted < 2.5 * seconds


def calibrated(equation: str, shapes: tuple[Sizes, ...], made: Sizes, dtype: str = "float32") -> float | None:
    graph = single("Einsum", [(shape, dtype) for shape in shapes], made, dtype=dtype, equation=equation)
    return einsum_seconds(graph.ops[0], graph, made_up_rates())


def test_a_calibration_prices_the_products_one_by_one() -> None:
    """Those of its tables take a nanosecond for each multiply-add, and copies one for each element."""
    found = calibrated("ij,jk,kl->il", ((32, 32),) * 3, (32, 32))
    assert found == pytest.approx(1e-6 + WARM_SHARE * 1e-9 * (2 * 32**3 + 32**2))
    turned = calibrated("ij,jk->ki", ((32, 32),) * 2, (32, 32))
    assert turned == pytest.approx(1e-6 + WARM_SHARE * 1e-9 * (32**3 + 2 * 32**2))


def test_products_that_no_calibration_measures_go_by_their_cycles() -> None:
    assert calibrated("ij,ij->ij", ((32, 32),) * 2, (32, 32)) is None
    assert calibrated("ij,jk->ik", ((32, 32),) * 2, (32, 32), "float64") is None
