"""Updates of a training step, and what of a backward pass PyTorch computes itself.

An update reads parameter, gradient and what its optimizer keeps once, and writes all but the gradient: the bytes that
every op without a row of its own is charged.
"""

from __future__ import annotations

from math import prod

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import flops, per_input_element, serial_cycles, spread_cycles
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
flops.add(lambda _: 3.0, ("hetpart.clipped.default",), CALL_DOMAIN)

CYCLES: dict[str, float] = {
    "hetpart.ftrl.default": 8.5, "hetpart.ftrl_half.default": 9.5, "hetpart.sgd_half.default": 2.3,
    "hetpart.momentum_half.default": 2.9, "hetpart.adam_half.default": 4.0, "hetpart.adamw_half.default": 4.0,
    "hetpart.adagrad_half.default": 3.3,
}  # fmt: skip
"""Of each parameter, on all threads together, where an update is not one pass of a fused kernel: FTRL, and those with
halves, go from operator to operator within blocks that the caches hold. Measured at 4.1 GHz: FTRL 2.07 ns on one thread
and 1.2 on two, halves of AdamW 0.90 and 0.54, where AdamW itself takes 0.56 and 0.30."""


@spread_cycles(*CYCLES, domain=CALL_DOMAIN)
def _cycles(o: Operands) -> float:
    return CYCLES[o.op.op_type] * o.numel(0)


KEEP_CYCLES = 7.0
"""Of each number that a dropout draws, on one thread: 2.2 ns at about 3 GHz."""
# Laws of other numbers than a dropout's are taken to be drawn as fast; one of a normal law takes longer.
_DRAWS = ("hetpart.keep.default", "hetpart.draw.default", "hetpart.draw_by.default")
flops.add(lambda o: float(o.output_numel()), _DRAWS, CALL_DOMAIN)
serial_cycles.add(lambda o: KEEP_CYCLES * o.output_numel(), _DRAWS, CALL_DOMAIN)


@flops("aten.convolution_backward.default", domain=CALL_DOMAIN)
def _convolution_backward(o: Operands) -> float:
    """Two convolutions, of gradient and weight and of gradient and input, each as long as that forward."""
    weight = o.shape(2)
    return 2 * 2.0 * o.numel(0) * prod(weight[1:])
