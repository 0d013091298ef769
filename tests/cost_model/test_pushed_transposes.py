"""Transposes stand, and take memory, where ONNX Runtime's optimiser leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from hetpart.cost_model.session.rewired.orders import composed, inverse, reordered, squeezed, unsqueezed
from tests.cost_model.float_models import Sizes, Weights, model_of
from tests.cost_model.kernels_and_memory import assert_as_onnx_runtime

SWAP, LAST, FIRST = [0, 2, 1], [0, 2, 3, 1], [0, 3, 1, 2]
node = helper.make_node


def turn(source: str, made: str, perm: list[int]) -> onnx.NodeProto:
    return node("Transpose", [source], [made], perm=perm, name=f"turn {made}")


def model(nodes: list[onnx.NodeProto], inputs: dict[str, Sizes], outputs: dict[str, Sizes], weights: Weights) -> Any:
    """``nodes`` between ops that read the inputs ``x…`` as ``a…``, and make the outputs ``y…`` of ``b…``."""
    before = [node("Erf", [name], [name.replace("x", "a")], name=f"before {name}") for name in inputs]
    behind = [node("Erf", [name.replace("y", "b")], [name], name=f"behind {name}") for name in outputs]
    for number, each in enumerate(nodes):
        each.name = each.name or f"{each.op_type} {number}"
    return model_of([*before, *nodes, *behind], inputs, outputs, weights, 20)


def whole(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


BATCH, TURNED, IMAGE = (8, 256, 128), (8, 128, 256), (4, 16, 64, 96)
MODELS: dict[str, Any] = {
    "undone behind an op": model(
        [turn("a", "t", SWAP), node("Sqrt", ["t"], ["u"]), turn("u", "b", SWAP)], {"x": BATCH}, {"y": BATCH}, {}
    ),
    "joined behind an op": model(
        [turn("a", "t", LAST), node("Sqrt", ["t"], ["u"]), turn("u", "b", LAST)],
        {"x": IMAGE}, {"y": (4, 96, 16, 64)}, {},
    ),
    "of all that is joined": model(
        [turn("a1", "t1", SWAP), turn("a2", "t2", SWAP), node("Concat", ["t1", "t2"], ["b"], axis=2)],
        {"x1": BATCH, "x2": (8, 128, 128)}, {"y": (8, 128, 384)}, {},
    ),
    "of some that is joined": model(
        [turn("a1", "t1", SWAP), node("Concat", ["t1", "a2"], ["b"], axis=2)],
        {"x1": BATCH, "x2": TURNED}, {"y": (8, 128, 512)}, {},
    ),
    "of both that are added": model(
        [turn("a1", "t1", SWAP), turn("a2", "t2", SWAP), node("Add", ["t1", "t2"], ["b"])],
        {"x1": BATCH, "x2": BATCH}, {"y": TURNED}, {},
    ),
    "before a vector is added": model(
        [turn("a", "t", LAST), node("Mul", ["t", "w"], ["u"]), node("Sqrt", ["u"], ["v"]), turn("v", "b", FIRST)],
        {"x": IMAGE}, {"y": IMAGE}, {"w": np.ones(16, np.float32)},
    ),
    "before a row is added": model(
        [turn("a1", "t", LAST), node("Mul", ["t", "a2"], ["u"]), turn("u", "b", FIRST)],
        {"x1": IMAGE, "x2": (16,)}, {"y": IMAGE}, {},
    ),
    "before it is multiplied by a scalar that a run makes": model(
        [
            turn("a1", "t", LAST), node("Squeeze", ["a2"], ["one"]), node("Mul", ["t", "one"], ["u"]),
            turn("u", "b", FIRST),
        ],
        {"x1": IMAGE, "x2": (1,)}, {"y": IMAGE}, {},
    ),
    "around a softmax": model(
        [turn("a", "t", SWAP), node("LogSoftmax", ["t"], ["u"], axis=2), turn("u", "b", SWAP)],
        {"x": BATCH}, {"y": BATCH}, {},
    ),
    "around a sum": model(
        [turn("a", "t", LAST), node("ReduceSum", ["t", "axes"], ["u"], keepdims=1), turn("u", "b", FIRST)],
        {"x": IMAGE}, {"y": (4, 16, 1, 96)}, {"axes": whole(1)},
    ),
    "before axes go": model(
        [turn("a", "t", LAST), node("ReduceSum", ["t", "axes"], ["u"], keepdims=0), turn("u", "b", SWAP)],
        {"x": IMAGE}, {"y": (4, 16, 96)}, {"axes": whole(1)},
    ),
    "of parts": model(
        [
            turn("a", "t", SWAP), node("Split", ["t"], ["u", "v"], axis=1, num_outputs=2),
            turn("u", "b1", SWAP), turn("v", "b2", SWAP),
        ],
        {"x": BATCH}, {"y1": (8, 256, 64), "y2": (8, 256, 64)}, {},
    ),
    "around what is cut": model(
        [turn("a", "t", SWAP), node("Slice", ["t", "start", "end", "axis"], ["u"]), turn("u", "b", SWAP)],
        {"x": BATCH}, {"y": (8, 256, 100)}, {"start": whole(4), "end": whole(104), "axis": whole(1)},
    ),
    "around what is padded": model(
        [turn("a", "t", SWAP), node("Pad", ["t", "pads"], ["u"]), turn("u", "b", SWAP)],
        {"x": BATCH}, {"y": (8, 256, 136)}, {"pads": whole(0, 4, 0, 0, 4, 0)},
    ),
    "around what is repeated": model(
        [turn("a", "t", SWAP), node("Tile", ["t", "times"], ["u"]), turn("u", "b", SWAP)],
        {"x": BATCH}, {"y": (8, 256, 256)}, {"times": whole(1, 2, 1)},
    ),
    "read by others too": model(
        [turn("a", "t", SWAP), node("Sqrt", ["t"], ["u"]), turn("u", "b1", SWAP), node("MatMul", ["t", "w"], ["b2"])],
        {"x": BATCH}, {"y1": BATCH, "y2": (8, 128, 64)}, {"w": np.ones((256, 64), np.float32)},
    ),
    "before axes are taken apart": model(
        [turn("a", "t", SWAP), node("Reshape", ["t", "shape"], ["b"])],
        {"x": BATCH}, {"y": (8, 128, 16, 16)}, {"shape": whole(8, 128, 16, 16)},
    ),
    "before batches are taken apart": model(
        [turn("a", "t", [2, 0, 1]), node("Reshape", ["t", "shape"], ["b"])],
        {"x": BATCH}, {"y": (128, 2, 4, 1, 256)}, {"shape": whole(128, 2, 4, 1, 256)},
    ),
    "before axes are taken apart that are turned back": model(
        [turn("a", "t", SWAP), node("Reshape", ["t", "shape"], ["u"]), turn("u", "b", LAST)],
        {"x": BATCH}, {"y": (8, 16, 16, 128)}, {"shape": whole(8, 128, 16, 16)},
    ),
    "before an axis of one behind all": model(
        [turn("a", "t", SWAP), node("Reshape", ["t", "shape"], ["b"])],
        {"x": BATCH}, {"y": (8, 128, 256, 1)}, {"shape": whole(8, 128, 256, 1)},
    ),
    "before axes are joined": model(
        [turn("a", "t", FIRST), node("Reshape", ["t", "shape"], ["b"])],
        {"x": (4, 64, 96, 16)}, {"y": (4, 16, 64 * 96)}, {"shape": whole(4, 16, 64 * 96)},
    ),
    "before axes are taken apart, and read by others": model(
        [turn("a", "t", SWAP), node("Reshape", ["t", "shape"], ["b1"]), node("MatMul", ["t", "w"], ["b2"])],
        {"x": BATCH}, {"y1": (8, 128, 16, 16), "y2": (8, 128, 64)},
        {"shape": whole(8, 128, 16, 16), "w": np.ones((256, 64), np.float32)},
    ),
    "in a row": model(
        [
            turn("a", "t", SWAP), node("Sqrt", ["t"], ["u"]), node("Exp", ["u"], ["v"]), node("Neg", ["v"], ["w"]),
            turn("w", "b", SWAP),
        ],
        {"x": BATCH}, {"y": BATCH}, {},
    ),
    "before the last of a sequence": model(
        [turn("a", "t", [1, 0, 2]), node("Gather", ["t", "at"], ["b"], axis=1)],
        {"x": BATCH}, {"y": (256, 128)}, {"at": np.array(-1)},
    ),
    "before one of the axes that move": model(
        [turn("a", "t", LAST), node("Gather", ["t", "at"], ["b"], axis=1)],
        {"x": IMAGE}, {"y": (4, 96, 16)}, {"at": np.array(1)},
    ),
    "before an index that a run tells": model(
        [
            turn("a1", "t", [1, 0, 2]), node("Cast", ["a2"], ["i"], to=7), node("Squeeze", ["i"], ["at"]),
            node("Gather", ["t", "at"], ["b"], axis=1),
        ],
        {"x1": BATCH, "x2": (1,)}, {"y": (256, 128)}, {},
    ),
    "before a list of indices": model(
        [turn("a", "t", [1, 0, 2]), node("Gather", ["t", "at"], ["b"], axis=1)],
        {"x": BATCH}, {"y": (256, 1, 128)}, {"at": whole(-1)},
    ),
    "before an index that others do not share": model(
        [turn("a", "t", [1, 0, 2]), node("Gather", ["t", "at"], ["b1"], axis=1), node("Sqrt", ["t"], ["b2"])],
        {"x": BATCH}, {"y1": (256, 128), "y2": (256, 8, 128)}, {"at": np.array(-1)},
    ),
    "that nothing undoes": model(
        [turn("a", "t", SWAP), node("Sqrt", ["t"], ["b"])], {"x": BATCH}, {"y": TURNED}, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_kernels_and_memory_are_those_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(MODELS[name], name, tmp_path)


def keys(batches: int, heads: int, *behind: onnx.NodeProto) -> Any:
    """Keys of ``heads``, turned as batches of one axis, that queries of four are multiplied with."""
    rows, of_one = [256, 128], [batches * heads, 256, 128]
    nodes = [
        node("Reshape", ["a1", "flat"], ["f"]), turn("f", "t", SWAP), node("Reshape", ["t", "shape"], ["u"]), *behind,
        node("MatMul", ["a2", "v" if behind else "u"], ["b"]),
    ]  # fmt: skip
    weights: Weights = {"flat": whole(*of_one), "shape": whole(batches, heads, 128, 256)}
    inputs: dict[str, Sizes] = {"x1": (batches, heads, *rows), "x2": (batches, 4, 16, 128)}
    return model(nodes, inputs, {"y": (batches, 4, 16, 256)}, weights | {"factor": np.array(0.3, np.float32)})


KEYS: dict[str, Any] = {
    "of as many heads": keys(8, 4),
    "of one head": keys(8, 1),
    "of one head of one batch": keys(1, 1),
    "of one head, scaled": keys(8, 1, node("Mul", ["u", "factor"], ["v"])),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_turned_by_the_product_or_before_it(name: str, tmp_path: Path) -> None:
    """Of one head an axis of one stands before the matrices, which the optimiser takes to be of the rows."""
    assert_as_onnx_runtime(KEYS[name], name, tmp_path)


def scaled(*sizes: int, second: str = "w", back: tuple[bool, bool] = (False, True)) -> Any:
    """Heads put first, twice, that are scaled by ``w`` and by ``second``, and in part turned back."""
    nodes: list[onnx.NodeProto] = []
    outputs: dict[str, Sizes] = {}
    for branch, weight, turns in zip("12", ("w", second), back, strict=True):
        made = f"m{branch}" if turns else f"b{branch}"
        nodes += [turn(f"a{branch}", f"t{branch}", HEADS), node("Mul", [f"t{branch}", weight], [made])]
        nodes += [turn(made, f"b{branch}", HEADS)] if turns else []
        nodes.append(node("Neg", [f"t{branch}"], [f"b{branch}{branch}"]))
        outputs |= {f"y{branch}": LINES if turns else HEADS_FIRST, f"y{branch}{branch}": HEADS_FIRST}
    factor = np.linspace(0.5, 1.5, int(np.prod(sizes)), dtype=np.float32).reshape(sizes)
    return model(nodes, {"x1": LINES, "x2": LINES}, outputs, {"w": factor, "v": 1 + factor})


HEADS, LINES, HEADS_FIRST = [0, 2, 1, 3], (1, 64, 4, 32), (1, 4, 64, 32)
SCALED: dict[str, Any] = {
    "by weights of their own": scaled(1, 1, 64, 32, second="v"),
    "by one weight": scaled(1, 1, 64, 32),
    "by one weight of whole size": scaled(*HEADS_FIRST),
    "by one weight, both turned back": scaled(1, 1, 64, 32, back=(True, True)),
    "by one weight of fewer axes": scaled(64, 32),
    "by one weight of fewer axes, both turned back": scaled(4, 64, 32, back=(True, True)),
}


@pytest.mark.parametrize("name", SCALED)
def test_a_weight_that_is_turned_for_one_op_is_turned_back_for_others(name: str, tmp_path: Path) -> None:
    """A Transpose goes there when another is pushed behind such an op, as from both inputs of RoFormer's queries."""
    assert_as_onnx_runtime(SCALED[name], name, tmp_path)


def convolving(channels: int, *nodes: onnx.NodeProto, behind: bool = True) -> Any:
    """A convolution, ``nodes`` from ``a`` to ``b``, and another convolution or none."""
    window = {"kernel_shape": [3, 3], "pads": [1] * 4}
    image = (1, channels, 64, 64)
    weights: Weights = {"w": np.ones((channels, channels, 3, 3), np.float32), "g": np.ones(channels, np.float32)}
    weights |= {"flat": whole(1, 64 * 64, channels), "shape": whole(*image)}
    last = node("Conv", ["b", "w"], ["y"], name="last", **window) if behind else node("Erf", ["b"], ["y"], name="last")
    for number, each in enumerate(nodes):
        each.name = each.name or f"{each.op_type} {number}"
    first = node("Conv", ["x", "w"], ["a"], name="first", **window)
    made = image if behind else (1, 64, 64, channels)
    return model_of([first, *nodes, last], {"x": image}, {"y": made}, weights, 20)


IMAGES: dict[str, Any] = {
    "put last behind a convolution": convolving(
        32, turn("a", "t", LAST), node("LayerNormalization", ["t", "g", "g"], ["b"], axis=-1), behind=False
    ),
    "put first before a convolution": convolving(
        32, turn("a", "t", LAST), node("LayerNormalization", ["t", "g", "g"], ["n"], axis=-1), turn("n", "b", FIRST)
    ),
    "put first before a convolution as one axis": convolving(
        32, turn("a", "t", LAST), node("LayerNormalization", ["t", "g", "g"], ["n"], axis=-1),
        node("Reshape", ["n", "flat"], ["f"]), turn("f", "u", SWAP), node("Reshape", ["u", "shape"], ["b"]),
    ),
    "read in both orders": convolving(
        32, turn("a", "t", LAST), node("LayerNormalization", ["t", "g", "g"], ["n"], axis=-1),
        turn("n", "f", FIRST), node("Add", ["f", "a"], ["b"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_channels_in_blocks_are_put_last_at_once(name: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(IMAGES[name], name, tmp_path)


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1), (1, 2, 3, 0), (3, 1, 0, 2)])
def test_orders_are_those_of_numpy(order: tuple[int, ...]) -> None:
    array = np.zeros([3, 5, 7, 11][: len(order)])
    turned = array.transpose(order)
    assert reordered(array.shape, order) == turned.shape
    assert turned.transpose(inverse(order)).shape == array.shape
    assert turned.transpose(order).shape == array.transpose(composed(order, order)).shape
    gone = order[1]
    assert turned[:, 0].shape == array.take(0, gone).transpose(squeezed(order, (gone,))).shape
    assert np.expand_dims(turned, 1).shape == np.expand_dims(array, 1).transpose(unsqueezed(order, (1,))).shape
