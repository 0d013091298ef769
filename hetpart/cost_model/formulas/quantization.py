"""Between floats and small integers, and arithmetic on quantized tensors."""

from __future__ import annotations

from hetpart.cost_model.formulas.table import CONTRIB, per_input_element, per_output_element

PER_ELEMENT: dict[str, float] = {"DequantizeLinear": 2, "QuantizeLinear": 4}
CONTRIB_PER_ELEMENT: dict[str, float] = {
    "DequantizeBFP": 2, "DequantizeLinear": 2, "DequantizeWithOrder": 2, "QLinearAdd": 6, "QLinearLeakyRelu": 6,
    "QLinearMul": 6, "QLinearSigmoid": 8, "QLinearWhere": 4, "QOrderedGelu": 14, "QuantizeBFP": 4,
    "QuantizeLinear": 4, "QuantizeWithOrder": 4,
}  # fmt: skip

per_output_element(PER_ELEMENT)
per_output_element(CONTRIB_PER_ELEMENT, CONTRIB)
# It looks for the range first, then quantizes.
per_input_element({"DynamicQuantizeLinear": 6})
