"""Random graphs and placements, as Hypothesis draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = (1, 7, 100, 1000)
MOST_NODES = 12


@dataclass
class Drawing:
    """A graph under way. Every value is a vector; ``None`` is a length that only a run can tell."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    lengths: dict[str, int | None] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def pick(self, fits: Callable[[int | None], bool] = lambda _: True) -> str:
        return self.draw(st.sampled_from([name for name, length in self.lengths.items() if fits(length)]))

    def add(self, op_type: str, inputs: list[str], lengths: list[int | None], **attributes: Any) -> None:
        number = len(self.nodes)
        outputs = [f"v{number}.{slot}" for slot in range(len(lengths))]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=f"n{number}", **attributes))
        self.lengths.update(zip(outputs, lengths, strict=True))


def _unary(drawing: Drawing) -> None:
    source = drawing.pick()
    op_type = drawing.draw(st.sampled_from(["Neg", "Abs", "Identity", "Tanh"]))
    drawing.add(op_type, [source], [drawing.lengths[source]])


def _binary(drawing: Drawing) -> None:
    first = drawing.pick()
    length = drawing.lengths[first]
    others = [name for name, other in drawing.lengths.items() if other == 1 or (length is not None and other == length)]
    second = drawing.draw(st.sampled_from(["one", *others]))
    drawing.add(drawing.draw(st.sampled_from(["Add", "Mul"])), [first, second], [length])


def _concat(drawing: Drawing) -> None:
    sources = [
        drawing.pick(lambda length: length is not None and length <= max(LENGTHS))
        for _ in range(drawing.draw(st.integers(1, 3)))
    ]
    drawing.add("Concat", sources, [sum(drawing.lengths[name] or 0 for name in sources)], axis=0)


def _halves(drawing: Drawing) -> None:
    splits = [name for name, length in drawing.lengths.items() if length is not None and length > 1]
    if not splits:
        return _unary(drawing)
    source = drawing.draw(st.sampled_from(splits))
    length = drawing.lengths[source] or 0
    return drawing.add("Split", [source], [length - length // 2, length // 2], axis=0, num_outputs=2)


def _positive(drawing: Drawing) -> None:
    """The elements above zero: how many there are, only a run can tell."""
    source = drawing.pick()
    number = len(drawing.nodes)
    drawing.add("Greater", [source, "zero"], [drawing.lengths[source]])
    drawing.add("Compress", [source, f"v{number}.0"], [None])
    del drawing.lengths[f"v{number}.0"]


STEPS = (_unary, _unary, _binary, _binary, _concat, _halves, _positive)


@st.composite
def models(draw: Any) -> onnx.ModelProto:
    """A model of one-dimensional float values, of known and unknown length. Every node serves an output."""
    drawing = Drawing(draw)
    inputs = {
        f"x{i}": length for i, length in enumerate(draw(st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=3)))
    }
    drawing.lengths.update(inputs)
    for _ in range(draw(st.integers(1, MOST_NODES))):
        draw(st.sampled_from(STEPS))(drawing)
    read = {name for node in drawing.nodes for name in node.input}
    returned = [name for name in drawing.lengths if name[0] == "v" and (name not in read or draw(st.booleans()))]
    graph = helper.make_graph(
        drawing.nodes,
        "drawn",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [length]) for name, length in inputs.items()],
        [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, ["N" if drawing.lengths[name] is None else drawing.lengths[name]]
            )
            for name in returned
        ],
        [
            helper.make_tensor(name, TensorProto.FLOAT, shape, [value])
            for name, shape, value in (("one", [1], 1.0), ("zero", [], 0.0))
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def feeds(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input
    }
