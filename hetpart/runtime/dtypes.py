"""Element types at run time: the graph's names, NumPy's, and ONNX's numbers."""

from __future__ import annotations

from functools import cache

import numpy as np

from hetpart.graph.ir import DTYPE_BITS

_ONNX_NUMBERS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
    "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26,
}  # fmt: skip
"""``TensorProto.DataType`` of the ONNX standard. Importing ``onnx`` for it would cost a session 0.1 s."""
_EXTENSION_NAMES = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}
"""Types that NumPy knows through ``ml_dtypes``, by their name there. Packed types have no array form."""
_SESSION_NAMES = {"float32": "float", "float64": "double"}


def onnx_number(dtype: str) -> int:
    """``TensorProto.DataType`` of a dtype's name."""
    return _ONNX_NUMBERS[dtype]


def dtype_known_as(name: str) -> str:
    """The dtype that ``ml_dtypes``, and PyTorch, call ``name``; nothing where they know none of that name."""
    return next((dtype for dtype, known in _EXTENSION_NAMES.items() if known == name), "")


@cache
def numpy_dtype(dtype: str) -> np.dtype[np.generic] | None:
    """NumPy's type for a dtype's name; ``None`` for one that has no array form."""
    if dtype == "string":
        return np.dtype(object)
    if dtype in _EXTENSION_NAMES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _EXTENSION_NAMES[dtype]))
    # Asked by name, NumPy knows `int4` once ml_dtypes is imported, an element a byte; ONNX Runtime packs two.
    return np.dtype(dtype) if DTYPE_BITS.get(dtype, 0) >= 8 else None


def is_builtin(dtype: str) -> bool:
    """Whether NumPy has the type by itself, so that ONNX Runtime takes and gives arrays of it."""
    known = numpy_dtype(dtype)
    return known is not None and known.isbuiltin == 1


def session_type(dtype: str) -> str:
    """The type as ``onnxruntime``'s ``NodeArg.type`` spells it, such as ``tensor(float)``."""
    return f"tensor({_SESSION_NAMES.get(dtype, dtype)})"
