"""Small whole models to damage. Between them they hold whatever a ModelProto can."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

from benchmarks.models.control_flow import build as build_control_flow

EXTERNAL_FILE = "weights.bin"
_LARGEST_BAKED = 16
_LARGEST_SEED = 20_000

_TEXTS = {
    "mlp": """<ir_version: 8, opset_import: ["": 17]>
        mlp (float[batch, 64] x) => (float[batch, 64] y, float[batch, 64] h)
        <float[64, 64] w1, float[64, 64] w2, float[64] b>
        { a = MatMul (x, w1)  s = Add (a, b)  h = Relu (s)
          wt = Transpose <perm = [1, 0]> (w2)  y = MatMul (h, wt) }""",
    "shapes": """<ir_version: 8, opset_import: ["": 18]>
        shapes (float[batch, seq, 8] x, int64[batch, past] ids, float[N, total] mask) => (float[a, b, c, d] y, float z)
        <float[50, 8] table, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64 zero = {0}>
        { s = Shape (x)  n = Gather (s, zero)  m = Unsqueeze (n, one_axis)  one_axis = Constant <value_ints = [0]> ()
          rows = Slice (s, zero_axis, two)  zero_axis = Constant <value = int64[1] {0}> ()
          t = Concat <axis = 0> (rows, two, four)  y = Reshape (x, t)
          g = Gather (table, ids)  e = Expand (g, wide)  wide = Concat <axis = 0> (m, one, one)
          r = Range (zero, limit, step)  limit = Squeeze (four)  step = Squeeze (one)
          f = Cast <to = 1> (r)  p = ReduceSum (e, minus)  minus = Constant <value_ints = [-1]> ()
          q = ConstantOfShape <value = float[1] {2.5}> (wide)  z = Add (p, q) }""",
    "functions": """<ir_version: 9, opset_import: ["": 18, "my": 1]>
        functions (float[batch, 8] x) => (float[batch, 8] y)
        { a = my.Outer <slope = 0.5> (x)  b = my.Inner <slope = 0.25> (a)  y = my.Outer (b) }
        <domain: "my", opset_import: ["": 18]> Inner <slope> (a) => (b)
        { t = LeakyRelu <alpha : float = @slope> (a)  b = Add (t, a) }
        <domain: "my", opset_import: ["": 18, "my": 1]> Outer <slope : float = 0.1> (a) => (b)
        { t = my.Inner <slope : float = @slope> (a)  b = Mul (t, t) }""",
    "quantized": """<ir_version: 9, opset_import: ["": 19]>
        quantized (float[batch, 3, 8, 8] x) => (float[batch, 4, 4, 4] y)
        <int8[4, 3, 3, 3] w, float scale = {0.02}, int8 zero = {0}, float[4] b = {0, 1, 2, 3}>
        { xq = QuantizeLinear (x, scale, zero)  xd = DequantizeLinear (xq, scale, zero)
          wd = DequantizeLinear (w, scale, zero)  c = Conv <pads = [1, 1, 1, 1], strides = [1, 1]> (xd, wd, b)
          r = Relu (c)  y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) }""",
    "sequences": """<ir_version: 8, opset_import: ["": 18]>
        sequences (float[4, 6] x, seq(float[2, 6]) given, optional(float[2]) maybe) => (float[4, 6] y, bool has)
        { s = SplitToSequence <axis = 0> (x)  at = Constant <value_int = 0> ()  e = SequenceAt (s, at)
          u = SequenceInsert (s, e)  y0 = ConcatFromSequence <axis = 0> (s)
          n = SequenceLength (u)  f = Cast <to = 1> (n)  y = Add (y0, f)  has = OptionalHasElement (maybe) }""",
    "scan": """<ir_version: 8, opset_import: ["": 18]>
        scan (float[batch, 4] x, float[4] start) => (float[4] last, float[batch, 4] all)
        { last, all = Scan <num_scan_inputs = 1, body = turn (float[4] state, float[4] row)
            => (float[4] next, float[4] seen) { next = Add (state, row)  seen = Mul (next, start) }> (start, x) }""",
    "contrib": """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        contrib (float[batch, 4, 8] x) => (float[batch, 4, 8] y)
        <float[8] b = {0, 1, 2, 3, 4, 5, 6, 7}, float[8] g = {1, 1, 1, 1, 1, 1, 1, 1}, float[8, 8] w>
        { a = com.microsoft.BiasGelu (x, b)  s = com.microsoft.SkipLayerNormalization (a, x, g, b)
          y = com.microsoft.FusedMatMul <transB = 1> (s, w) }""",
    "overridable": """<ir_version: 8, opset_import: ["": 13]>
        overridable (float[batch, 3] x, float[3] w) => (float[batch, 3] y, float[3] w)
        <float[3] w = {1, 2, 3}> { y = Add (x, w) }""",
}


def small_models(folder: Path) -> dict[str, onnx.ModelProto]:
    """The models by name; the weights of one lie in ``folder``, in ``EXTERNAL_FILE``."""
    models = {name: _with_weights(parser.parse_model(text)) for name, text in _TEXTS.items()}
    models["external"] = _external(models["mlp"], folder)
    models["sparse"] = _sparse()
    models["control flow"] = onnx.load(build_control_flow(folder / "control_flow.onnx", hidden=4))
    return models


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """What the text declares and no node makes is a weight; a dimension called ``total`` is an expression."""
    rng = np.random.default_rng(0)
    for value in model.graph.value_info:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        model.graph.initializer.append(
            numpy_helper.from_array((rng.standard_normal(shape) * 9).astype(dtype), value.name)
        )
    del model.graph.value_info[:]
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "total":
                dim.dim_param = "past + seq"
    return model


def _external(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    with (folder / EXTERNAL_FILE).open("wb") as file:
        for tensor in made.graph.initializer:
            raw = numpy_helper.to_array(tensor).tobytes()
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", EXTERNAL_FILE), ("offset", file.tell()), ("length", len(raw))):
                tensor.external_data.add(key=key, value=str(value))
            file.write(raw)
    return made


def _sparse() -> onnx.ModelProto:
    def sparse(name: str, indices: list[int] | list[list[int]]) -> onnx.SparseTensorProto:
        values = numpy_helper.from_array(np.array([1.0, 2.0], np.float32), name)
        places = numpy_helper.from_array(np.array(indices, np.int64), f"{name}_places")
        return helper.make_sparse_tensor(values, places, [3, 4])

    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("Constant", [], ["c"], sparse_value=sparse("", [[0, 0], [2, 1]])),
        helper.make_node("MatMul", ["x", "c"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, ["batch", 3])], [helper.make_tensor_value_info("y", 1, ["batch", 4])]
    graph = helper.make_graph(nodes, "sparse", *ends, sparse_initializer=[sparse("v", [1, 6])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node_models() -> dict[str, onnx.ModelProto]:
    """The models of ONNX's node tests, which know every operator and attribute."""
    with warnings.catch_warnings(action="ignore"):  # NumPy warns while the tests' data are made
        return {case.name: case.model for case in collect_testcases(None)}


def baked_models() -> dict[str, onnx.ModelProto]:
    """The same with their small integer inputs as initializers: axes, shapes and indices that inference looks into."""
    with warnings.catch_warnings(action="ignore"):
        return {case.name: _baked(case.model, case.data_sets[0][0]) for case in collect_testcases(None)}


def _baked(model: onnx.ModelProto, inputs: Sequence[object]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value, content in zip(model.graph.input, inputs, strict=False):
        if isinstance(content, np.ndarray) and content.dtype.kind in "iub" and content.size <= _LARGEST_BAKED:
            made.graph.initializer.append(numpy_helper.from_array(content, value.name))
    return made


def plant(folder: Path) -> None:
    """Write every model to damage below ``folder``, in a folder for each kind."""
    kinds = {"whole": small_models(folder), "nodes": node_models(), "baked": baked_models()}
    for kind, models in kinds.items():
        (folder / kind).mkdir()
        for name, model in models.items():
            if model.ByteSize() <= _LARGEST_SEED:
                (folder / kind / f"{name}.onnx").write_bytes(model.SerializeToString())
