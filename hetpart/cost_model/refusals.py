"""What ONNX Runtime has a kernel for and refuses all the same, by attributes and operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hetpart.graph.ir import Op

Refusal = tuple[Callable[[Op], bool], str]
"""A test of an op, and what it finds."""
Refusals = Mapping[str, tuple[Refusal, ...]]
"""By op type."""


def refused(refusals: Refusals, op: Op) -> str | None:
    """What of ``op`` is refused, in words."""
    return next((why for refuses, why in refusals.get(op.op_type, ()) if refuses(op)), None)


def _other_activations(op: Op) -> bool:
    usual = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}[op.op_type] * 2
    named = op.attributes.get("activations", ())
    words = [str(word).lower() for word in named] if isinstance(named, tuple) else []
    return any(word != expected for word, expected in zip(words, usual, strict=False))


def _asymmetric(op: Op) -> bool:
    pads = op.attributes.get("pads", ())
    if isinstance(pads, tuple) and pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
        return True
    return str(op.attributes.get("auto_pad", "NOTSET")).startswith("SAME")


def _differs(name: str, default: int) -> Callable[[Op], bool]:
    return lambda op: op.attributes.get(name, default) != default


def _has(name: str) -> Callable[[Op], bool]:
    return lambda op: name in op.attributes


def _packed(op: Op) -> bool:
    """Whether the values of MultiHeadAttention lie in its key or query."""
    return len(op.inputs) < 3 or op.inputs[2] is None


def _mixed_widths(op: Op) -> bool:
    told = op.attributes.get("expert_weight_bits", 4)
    return any(op.attributes.get(f"fc{layer}_expert_weight_bits", told) != told for layer in (1, 2, 3))


_ANY_RECURRENT: tuple[Refusal, ...] = (
    *((_has(name), name) for name in ("activation_alpha", "activation_beta", "clip")),
    (_other_activations, "activations other than the usual ones"),
)
CUDA_REFUSES: Refusals = {
    "ArgMax": ((_differs("select_last_index", 0), "select_last_index"),),
    "ArgMin": ((_differs("select_last_index", 0), "select_last_index"),),
    "BatchNormalization": ((_differs("training_mode", 0), "training_mode"),),
    "ConvTranspose": ((_asymmetric, "asymmetric padding"),),
    "GRU": (*_ANY_RECURRENT, (lambda op: op.attributes.get("linear_before_reset", 0) != 1, "linear_before_reset = 0")),
    "LSTM": (
        *_ANY_RECURRENT,
        (_differs("input_forget", 0), "input_forget"),
        (lambda op: len(op.inputs) > 7 and op.inputs[7] is not None, "peepholes"),
    ),
    "RNN": _ANY_RECURRENT,
}
"""What ONNX Runtime's CUDA provider leaves to the CPU."""
CPU_REFUSES: Refusals = {
    "MultiHeadAttention": ((_packed, "packed query, key and value"),),
    "QMoE": ((_mixed_widths, "a layer of other bits than expert_weight_bits"),),
}
"""What ONNX Runtime's CPU provider takes, and refuses in the run."""
_BATCHWISE: Refusal = (_differs("layout", 0), "layout = 1, batches first")
REFUSES: Refusals = {
    "Attention": tuple((_has(name), name) for name in ("left_window_size", "right_window_size")),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (_BATCHWISE,)),
}
"""What no provider runs. Attention has windows in a newer ONNX than that ONNX Runtime is built with."""
BODY_NEEDS: Mapping[str, tuple[str, str]] = {"Gelu": ("approximate", "tanh")}
"""An attribute, and its value with which alone the CPU provider has kernels for the body of an operator: those for
``Tanh`` take more types than that for ``Erf``."""
