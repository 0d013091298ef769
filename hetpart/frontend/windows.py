# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Whether a call that lays windows over an image, pads it or scales it is one that goes wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_true

from hetpart.frontend.conditions import argument_of, asking, given_to


def shrinks(node: Node) -> bool:
    """Whether a padding takes off what is there, or adds nothing but a copy of its edge."""
    return argument_of(node, "mode", "constant") != "constant" and any(
        isinstance(size, int) and size < 0 for size in argument_of(node, "pad", ())
    )


def pads_beyond(node: Node) -> bool:
    """Whether a transposed convolution pads what it makes by a step or more, or may."""
    pads, steps = (argument_of(node, name, default) for name, default in (("output_padding", 0), ("stride", 1)))
    pads, steps = (one if isinstance(one, tuple) else (one,) for one in (pads, steps))
    return any(isinstance(one, Node) for one in (*pads, *steps)) or any(
        pad >= step for pad, step in zip(pads, steps, strict=False) if pad
    )


def pools_open(node: Node) -> bool:
    """Whether windows are laid over sizes that differ from call to call, other than one window over all."""
    sizes: Any = argument_of(node, "output_size", ())
    wanted: tuple[Any, ...] = sizes if isinstance(sizes, tuple) else (sizes,)
    first = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    pooled: Any = first.shape[-len(wanted) :] if isinstance(first, torch.Tensor) else ()
    return any(size != 1 for size in wanted) and any(isinstance(size, torch.SymInt) for size in pooled)


def drops_windows(node: Node) -> bool:
    """Whether a pool that rounds up has a window that starts behind all that it is given, or may: it is left out."""
    first = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not argument_of(node, "ceil_mode", False) or not isinstance(first, torch.Tensor):
        return False
    axes = int(str(node.target).partition("pool")[2][0])
    kernels, pads = (_spread(given_to(node, name), axes, 0) for name in ("kernel_size", "padding"))
    strides = _spread(argument_of(node, "stride", None) or tuple(kernels), axes, 1)
    dilations = _spread(given_to(node, "dilation"), axes, 1)
    windows = zip(first.shape[-axes:], kernels, strides, pads, dilations, strict=True)
    return any(_drops_last(*window) for window in windows)


def _spread(given: Any, axes: int, default: int) -> list[int]:
    """A number for every axis, of one for all or of none."""
    listed = list(given) if isinstance(given, tuple) else [default if given is None else given]
    return listed if len(listed) == axes else (listed or [default]) * axes


def _drops_last(size: Any, kernel: int, stride: int, pad: int, dilation: int) -> bool:
    """Whether the last window that rounding up gives starts at ``size`` or behind; what no guard tells of, may."""
    last = (size + 2 * pad - dilation * (kernel - 1) - 1 + stride - 1) // stride
    with asking():
        return guard_or_true(last * stride >= size + pad)


def rounds_scale(node: Node) -> bool:
    """Whether a factor of sizes, which ONNX has in float32, gives another size than in float64, or may give one."""
    factors, given = argument_of(node, "scale_factors", None), node.args[0]
    value = given.meta.get("val") if isinstance(given, Node) else None
    if factors is None or not isinstance(value, torch.Tensor):
        return False
    pairs = zip(value.shape[2:], factors, strict=False)
    return any(not _is_single(factor) and not _scales_alike(size, factor) for size, factor in pairs)


def _is_single(factor: float | Node) -> bool:
    return isinstance(factor, float | int) and float(np.float32(factor)) == factor


def _scales_alike(size: int | torch.SymInt, factor: float | Node) -> bool:
    return (
        isinstance(size, int)
        and isinstance(factor, float | int)
        and math.floor(np.float32(size) * np.float32(factor)) == math.floor(size * factor)
    )
