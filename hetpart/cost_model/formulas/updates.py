"""Updates of a training step, and what of a backward pass PyTorch computes itself.

An update reads parameter, gradient and what its optimizer keeps once, and writes all but the gradient: the bytes that
every op without a row of its own is charged.
"""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import flops, per_input_element, serial_cycles
from hetpart.graph.calls import CALL_DOMAIN

PER_PARAMETER: dict[str, float] = {
    "hetpart.sgd.default": 4, "hetpart.momentum.default": 6, "hetpart.adam.default": 16, "hetpart.adamw.default": 16,
    "hetpart.adagrad.default": 8, "hetpart.ftrl.default": 20,
}  # fmt: skip
"""Operations as the formulas of the optimizers write them, a root or a division as one."""

HALVES = {name.replace(".default", "_half.default"): number + 2 for name, number in PER_PARAMETER.items()}
"""Their forms for gradients and parameters in half precision, each rounded once."""

per_input_element(
    PER_PARAMETER | HALVES | {"hetpart.collect.default": 1, "hetpart.square_norm.default": 2}, CALL_DOMAIN
)


KEEP_CYCLES = 7.0
"""Of each number that a dropout draws, on one thread: 2.2 ns at about 3 GHz."""
flops.add(lambda o: float(o.output_numel()), ("hetpart.keep.default",), CALL_DOMAIN)
serial_cycles.add(lambda o: KEEP_CYCLES * o.output_numel(), ("hetpart.keep.default",), CALL_DOMAIN)


@flops("aten.convolution_backward.default", domain=CALL_DOMAIN)
def _convolution_backward(o: Operands) -> float:
    """Two convolutions, of gradient and weight and of gradient and input, each as long as that forward."""
    weight = o.shape(2)
    return 2 * 2.0 * o.numel(0) * prod(weight[1:])
