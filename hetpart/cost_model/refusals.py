"""What ONNX Runtime has a kernel for and refuses all the same, by attributes, dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from hetpart.cost_model.formulas.operands import Operands

Test = Callable[[Operands], bool]
Refusal = tuple[Test, str]
"""A test of an op, and what it finds."""
Refusals = Mapping[str, tuple[Refusal, ...]]
"""By op type."""


def refused(refusals: Refusals, o: Operands) -> str | None:
    """What of an op is refused, in words."""
    return next((why for refuses, why in refusals.get(o.op.op_type, ()) if refuses(o)), None)


def _other_activations(o: Operands) -> bool:
    usual = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}[o.op.op_type] * 2
    named = o.attribute("activations", ())
    words = [str(word).lower() for word in named] if isinstance(named, tuple) else []
    return any(word != expected for word, expected in zip(words, usual, strict=False))


def _asymmetric(o: Operands) -> bool:
    pads = o.integers("pads")
    if pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
        return True
    return str(o.attribute("auto_pad", "NOTSET")).startswith("SAME")


def _differs(name: str, default: int) -> Test:
    return lambda o: o.attribute(name, default) != default


def _has(name: str) -> Test:
    return lambda o: name in o.op.attributes


def _reads(position: int) -> Test:
    return lambda o: o.input(position) is not None


def _of_other_type(position: int) -> Test:
    """Than the first operand: the standard allows it, and ONNX Runtime finds none for what multiplies them."""
    return lambda o: _dtype(o, position) not in ("", _dtype(o))


def _packed(o: Operands) -> bool:
    """Whether the values of MultiHeadAttention lie in its key or query."""
    return o.input(2) is None


def _mixed_widths(o: Operands) -> bool:
    told = o.attribute("expert_weight_bits", 4)
    return any(o.attribute(f"fc{layer}_expert_weight_bits", told) != told for layer in (1, 2, 3))


def _outside(name: str, known: tuple[int, ...]) -> Test:
    return lambda o: o.integer(name, known[0]) not in known


def _reduced(dtype: str, *reductions: str) -> Test:
    return lambda o: _dtype(o) == dtype and o.attribute("reduction", "none") in reductions


def _dtype(o: Operands, position: int = 0) -> str:
    value = o.input(position)
    return "" if value is None else value.dtype


def _rank(o: Operands) -> int:
    """Of the first input, where it is known; 0 where not."""
    first = o.input(0)
    return 0 if first is None or first.shape is None else len(first.shape)


def _many_axes(o: Operands) -> bool:
    return _rank(o) > _VOLUMES


def _resizes_others(o: Operands) -> bool:
    """Whether it smooths over other axes than those of images and volumes, channels first or, of images, last."""
    kept = _KEPT.get(str(o.attribute("mode", "nearest")), {})
    before, after = o.shape(0), o.output_shape()
    if not kept or not _rank(o) or len(before) != len(after):
        return False
    same = {axis for axis, (size, made) in enumerate(zip(before, after, strict=True)) if size == made}
    return not any(same.issuperset(axes) for axes in kept.get(len(before), ()))


def _is_mode(o: Operands, *modes: str, name: str = "mode") -> bool:
    return o.attribute(name, modes[0]) in modes


def _other_gates(o: Operands) -> bool:
    kind = o.attribute("activation_type", "relu")
    return kind not in _GATES and not (kind == "swiglu" and o.integer("swiglu_fusion", 0) == 1)


def _per_element(position: int) -> Test:
    """Of an operand that is to be one number: a scalar, or a line of one."""

    def refuses(o: Operands) -> bool:
        value = o.input(position)
        return value is not None and value.shape is not None and value.shape not in ((), (1,), (None,))

    return refuses


def _activates_by_others(o: Operands) -> bool:
    """Whether it names what ONNX Runtime has not; it reads the capitals of those of an RNN alone."""
    named = o.attribute("activations", ())
    words = [str(word) for word in named] if isinstance(named, tuple) else []
    if o.op.op_type == "RNN":
        return not _RECURRENT.issuperset(words)
    return not {word.lower() for word in _RECURRENT}.issuperset(word.lower() for word in words)


def _lacks_parameters(o: Operands) -> bool:
    needed = _FUSED.get(str(o.attribute("activation", "")), ())
    return any(f"activation_{name}" not in o.op.attributes for name in needed)


_RECURRENT = frozenset({
    "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "ThresholdedRelu",
})  # fmt: skip
_FUSED: Mapping[str, tuple[str, ...]] = {
    "Celu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",),
    "ParametricSoftplus": ("alpha", "beta"), "Relu": (), "ScaledTanh": ("alpha", "beta"), "Selu": ("alpha", "gamma"),
    "Sigmoid": (), "Softplus": (), "Softsign": (), "Tanh": (), "ThresholdedRelu": ("alpha",),
}  # fmt: skip
"""Activations of FusedGemm, with the parameters that each takes from attributes."""
_CONVOLVED = frozenset({"Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh"})
"""Of FusedConv."""
_VOLUMES = 5
"""Axes of a batch of volumes, channels and all."""
_IMAGES: tuple[tuple[int, ...], ...] = ((0, 1), (0, 3))
_KEPT: Mapping[str, Mapping[int, tuple[tuple[int, ...], ...]]] = {
    "linear": {2: ((),), 3: ((),), 4: _IMAGES, 5: ((0, 1),)},
    "cubic": {2: ((),), 4: _IMAGES},
}
"""By mode and rank, which axes a Resize leaves as they are."""
_GATES = ("relu", "gelu", "silu", "identity")
_ANY_RECURRENT: tuple[Refusal, ...] = (
    *((_has(name), name) for name in ("activation_alpha", "activation_beta", "clip")),
    (_other_activations, "activations other than the usual ones"),
)
CUDA_REFUSES: Refusals = {
    "ArgMax": ((_differs("select_last_index", 0), "select_last_index"),),
    "ArgMin": ((_differs("select_last_index", 0), "select_last_index"),),
    "BatchNormalization": ((_differs("training_mode", 0), "training_mode"),),
    "ConvTranspose": ((_asymmetric, "asymmetric padding"),),
    "GRU": (*_ANY_RECURRENT, (lambda o: o.attribute("linear_before_reset", 0) != 1, "linear_before_reset = 0")),
    "LSTM": (
        *_ANY_RECURRENT,
        (_differs("input_forget", 0), "input_forget"),
        (_reads(7), "peepholes"),
    ),
    "RNN": _ANY_RECURRENT,
}
"""What ONNX Runtime's CUDA provider leaves to the CPU."""
_POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool")
_RESIZED: tuple[Refusal, ...] = (
    (_resizes_others, "these axes and this mode: linear takes two or three behind batch and channels, cubic two"),
    (lambda o: _is_mode(o, "nearest") and bool(o.integer("antialias", 0)), "antialias of nearest"),
    (lambda o: o.attribute("mode", "") == "cubic" and "int" in _dtype(o), "cubic on integers"),
)
_FLOAT64: Refusal = (lambda o: _dtype(o) == "float64", "float64")
_UNKNOWN: Refusal = (_activates_by_others, "activations other than those of ONNX")
CPU_REFUSES: Refusals = {
    "Attention": ((_differs("do_rotary", 0), "do_rotary"),),
    "CDist": ((lambda o: not _is_mode(o, "euclidean", "sqeuclidean", name="metric"), "metrics that are not Euclid's"),),
    "ConvInteger": (
        (_per_element(2), "a zero point for each channel of the image"),
        (_per_element(3), "a zero point for each filter"),
    ),
    "FusedConv": ((lambda o: o.attribute("activation", "Relu") not in _CONVOLVED, "this activation"),),
    "FusedGemm": (
        (lambda o: o.attribute("activation", "") not in _FUSED, "this activation"),
        (_lacks_parameters, "an activation without its parameters"),
    ),
    "GRU": (_FLOAT64, _UNKNOWN),
    "LSTM": (_FLOAT64, _UNKNOWN),
    "MatMulInteger": ((_per_element(2), "a zero point for each row"),),
    "RNN": (_UNKNOWN,),
    **dict.fromkeys(_POOLS, ((_many_axes, "windows of more than three axes"),)),
    **dict.fromkeys(("Resize", "Upsample"), _RESIZED),
    "GridSample": ((lambda o: _rank(o) == _VOLUMES and _is_mode(o, "cubic", "bicubic"), "cubic on volumes"),),
    "LRN": ((lambda o: o.integer("size", 1) % 2 == 0, "an even size"),),
    "MatMulNBits": (
        (_outside("bits", (4, 2, 8)), "bits other than 2, 4 and 8"),
        (_outside("block_size", (32, 16, 64, 128, 256)), "blocks other than of 16, 32, 64, 128 or 256"),
    ),
    "MoE": (
        (_reads(6), "a third layer of experts (fc3)"),
        (_other_gates, "activations other than relu, gelu, silu, identity and swiglu with swiglu_fusion = 1"),
    ),
    "MultiHeadAttention": ((_packed, "packed query, key and value"),),
    "QMoE": (
        (_mixed_widths, "a layer of other bits than expert_weight_bits"),
        (_outside("expert_weight_bits", (4, 2, 8)), "bits other than 2, 4 and 8"),
    ),
    "ScatterElements": (
        (_reduced("float16", "add", "mul"), "add and mul of float16"),
        (_reduced("bool", "max", "min"), "max and min of bool"),
    ),
    "ScatterND": (
        (_reduced("float16", "add", "mul", "max", "min"), "a reduction of float16"),
        (_reduced("bool", "max", "min"), "max and min of bool"),
    ),
}  # fmt: skip
"""What ONNX Runtime's CPU provider has a kernel for, and refuses in the session or in the run."""
BY_SHAPE = frozenset({*_POOLS, "ConvInteger", "GridSample", "MatMulInteger", "Resize", "Upsample"})
"""Of these, what is refused is told by shapes."""
_BATCHWISE: Refusal = (_differs("layout", 0), "layout = 1, batches first")
REFUSES: Refusals = {
    "Attention": (
        *((_has(name), name) for name in ("left_window_size", "right_window_size")),
        (_of_other_type(2), "values of another type than queries"),
    ),
    "RMSNormalization": ((_of_other_type(1), "a scale of another type"),),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (_BATCHWISE,)),
}
"""What no provider runs. Attention has windows in a newer ONNX than that ONNX Runtime is built with."""
LEFT_WHOLE: Mapping[str, AbstractSet[int]] = {
    "LeakyRelu": {*range(19, 27)},
    "MeanVarianceNormalization": {11, 12, *range(14, 18), *range(19, 27)},
    "PRelu": {*range(19, 27)},
    "Swish": {25, 26},
}
"""Opsets of models in which ONNX Runtime does not put a body in the place of an operator that CUDA has a kernel for, or
whose body ``onnx`` does not tell: operators of the body are others there than those it was written with.
``tests/cost_model/test_kernels.py`` asks ONNX Runtime."""
BODY_NEEDS: Mapping[str, tuple[str, str]] = {"Gelu": ("approximate", "tanh")}
"""An attribute, and its value with which alone the CPU provider has kernels for the body of an operator: those for
``Tanh`` take more types than that for ``Erf``."""
