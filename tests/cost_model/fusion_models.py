"""Small models in which ONNX Runtime fuses something, or nearly does: ``fusion_models.txt`` has one in a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

OPSETS = {"RMSNormalization": 23, "of opset 12": 12}
OPSET = 20


def _ramp(*shape: int, factor: float = 1.0) -> np.ndarray:
    return (factor * np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=np.float32)).reshape(shape)


def _integers(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


SCALARS = {
    "zero": 0, "half": 0.5, "one": 1, "two": 2, "three": 3, "six": 6, "factor": 3.3, "eps": 1e-5, "q1702": 1.702,
    "root2": 2**0.5, "inv_root2": 2**-0.5, "cubic": 0.044715, "root_2_pi": (2 / np.pi) ** 0.5, "step": 0.02,
    "minus_inf": -np.inf, "very_low": -3.4e38,
}  # fmt: skip
WEIGHTS: dict[str, np.ndarray] = {
    **{name: np.array(number, np.float32) for name, number in SCALARS.items()},
    **{name: np.array(number) for name, number in (("i0", 0), ("i1", 1), ("i2", 2))},
    "w": _ramp(8, 6), "w2": _ramp(8, 6, factor=2), "w8": _ramp(8, 8), "w_turned": _ramp(6, 8),
    "w_of_batches": _ramp(2, 8, 6), "tbl": _ramp(10, 8), "pos": _ramp(10, 8), "mask": _ramp(1, 1, 4, 4),
    "b": _ramp(6), "b8": _ramp(8), "g": _ramp(8), "g_half": _ramp(8).astype(np.float16), "m": _ramp(6),
    "bias_row": _ramp(1, 6), "bias_rows": _ramp(4, 6), "sixteen": _ramp(16),
    **{f"six_{letter}": _ramp(6) for letter in "abcd"},
    "four": _ramp(4), **{f"four_{letter}": _ramp(4) for letter in "bcd"},
    "k": _ramp(4, 3, 3, 3), "k_second": _ramp(4, 3, 3, 3, factor=2), "k_up": _ramp(3, 4, 3, 3),
    "k_wide": _ramp(16, 16, 3, 3), "k_other": _ramp(16, 16, 3, 3, factor=2),
    "per_channel": _ramp(4, 1, 1), "per_channel_4d": _ramp(1, 4, 1, 1),
    "eight_channels": _ramp(1, 8, 1, 1), "eight_channels_b": _ramp(1, 8, 1, 1),
    "pads": _integers(0, 0, 1, 1, 0, 0, 1, 1), "pads_channels": _integers(0, 1, 0, 0, 0, 0, 0, 0),
    "axis_0": _integers(0), "axis_1": _integers(1), "last_axis": _integers(-1), "mone": _integers(-1),
    "mfour": _integers(-4), "half_1d": _ramp(1), "of_lines": _ramp(4, 1), "of_lines_3d": _ramp(1, 4, 1),
    "k_line": _ramp(4, 3, 3), "k_lines": _ramp(4, 4, 3),
    "from_0": _integers(0), "from_4": _integers(4), "to_4": _integers(4), "to_8": _integers(8),
    "to_end": _integers(2**63 - 1), "every": _integers(1), "first_four": _integers(0, 1, 2, 3),
    "three_five_seven": _integers(3, 5, 7), "as_2_4_8": _integers(2, 4, 8), "as_4_2_8": _integers(4, 2, 8),
    "as_4_8": _integers(4, 8), "as_2_3_4_8": _integers(2, 3, 4, 8), "as_6_4_4_2": _integers(6, 4, 4, 2),
    "as_6_4_8": _integers(6, 4, 8), "as_8_6": _integers(8, 6), "as_8_8": _integers(8, 8),
    "zero_point": np.array(0, np.uint8),
}  # fmt: skip


def _read() -> dict[str, str]:
    lines = Path(__file__).with_name("fusion_models.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


TEXTS = _read()
"""By what they show."""


def fusion_model(name: str) -> onnx.ModelProto:
    """The model of that name with the weights it reads; nodes are named after what they make."""
    opset = next((opset for kind, opset in OPSETS.items() if kind in name), OPSET)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> fused {TEXTS[name]}')
    made = {value for node in model.graph.node for value in node.output} | {value.name for value in model.graph.input}
    read = {value for node in model.graph.node for value in node.input} - made
    model.graph.initializer.extend(numpy_helper.from_array(WEIGHTS[value], value) for value in sorted(read - {""}))
    for node in model.graph.node:
        node.name = f"{node.output[0]}_node"
    return model
