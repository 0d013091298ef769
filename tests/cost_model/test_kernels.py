"""Which kernels exist: against ONNX Runtime's own answer on the CPU, and facts of its CUDA provider one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from hetpart.cost_model.kernels import ONNX_RUNTIME, host_inputs, host_outputs, kernel_facts, missing_kernel
from hetpart.devices import Provider
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import Graph, ValueKind
from hetpart.plan.cut_models import WIDENED
from hetpart.runtime.widened import in_float32
from tests.cost_model.build import Builder, single

F32, OWN = "float32", "com.microsoft"


ATTRIBUTES = {"INT": 1, "FLOAT": 1.0, "STRING": "x", "INTS": [1], "FLOATS": [1.0], "STRINGS": ["x"]}
USUAL_TYPES = ("tensor(float)", "tensor(int64)", "tensor(int32)", "tensor(uint8)", "tensor(bool)", "tensor(string)")
OF_UNKNOWN_BODY = {"CausalConvWithState"}
"""Functions no model of one node could be made of that ONNX Runtime runs: they pass as runnable."""


@dataclass(frozen=True)
class Trial:
    """One operator with operands of one set of types."""

    schema: onnx.defs.OpSchema
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def missing(self) -> str | None:
        inputs = [((1,), _name(kind)) for kind in self.inputs]
        of = {"domain": self.schema.domain, "version": self.schema.since_version}
        graph = single(self.schema.name, inputs, (1,), dtype=_name(self.outputs[0]), **of)
        return missing_kernel(Provider.CPU, graph.ops[0], graph)

    def model(self) -> onnx.ModelProto:
        schema = self.schema
        sources, results = (
            [helper.make_tensor_value_info(f"{label}{k}", kind, None) for k, kind in enumerate(kinds)]
            for label, kinds in (("i", self.inputs), ("o", self.outputs))
        )
        options = {name: ATTRIBUTES[a.type.name] for name, a in schema.attributes.items() if a.required}
        names = ([value.name for value in side] for side in (sources, results))
        node = helper.make_node(schema.name, *names, domain=schema.domain, **options)
        opset = helper.make_opsetid(schema.domain, schema.since_version)
        return helper.make_model(helper.make_graph([node], "g", sources, results), opset_imports=[opset], ir_version=10)


def _name(kind: int) -> str:
    name = TensorProto.DataType.Name(kind).lower()
    return {"float": F32, "double": "float64"}.get(name, name)


def _tensor(text: str) -> int:
    return TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper())


def _trials(schema: onnx.defs.OpSchema) -> Iterator[Trial]:
    """Every type that the first operand may have, the others of usual types; none where that is not enough."""
    required = {a.type.name for a in schema.attributes.values() if a.required}
    operands = [*schema.inputs, *schema.outputs]
    if schema.deprecated or not operands or not required <= set(ATTRIBUTES):
        return
    choices = {o.type_str: sorted(kind for kind in o.types if kind.startswith("tensor(")) for o in operands}
    chosen = {key: next((u for u in USUAL_TYPES if u in may), *may[:1]) if may else "" for key, may in choices.items()}
    first = operands[0].type_str
    for kind in choices[first]:
        of = chosen | {first: kind}
        sides = (schema.inputs[: schema.min_input or 1], schema.outputs[: schema.min_output or 1])
        ins, outs = ([of[operand.type_str] for operand in side] for side in sides)
        if outs and all((*ins, *outs)):
            yield Trial(schema, tuple(map(_tensor, ins)), tuple(map(_tensor, outs)))


def _runs(model: onnx.ModelProto) -> bool | None:
    """Whether ONNX Runtime's CPU provider has what ``model`` takes; None where the model is none to it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises a dozen kinds
        return False if "NOT_IMPLEMENTED" in str(error) else None if "onnxruntime" in type(error).__module__ else True
    return True


def _runs_widened(model: onnx.ModelProto) -> bool | None:
    """The same as hetpart runs it: what ONNX Runtime refuses in bfloat16 computes in float32, between casts."""
    found = _runs(model)
    if found is not False or TensorProto.BFLOAT16 not in {v.type.tensor_type.elem_type for v in model.graph.input}:
        return found
    for node in model.graph.node:
        node.metadata_props.add(key=WIDENED)
    return _runs(onnx.load_model_from_string(in_float32(model.SerializeToString())))


def test_the_cpu_has_a_kernel_for_exactly_the_types_that_onnx_runtime_runs():
    schemas = onnx.defs.get_all_schemas_with_history()
    runs = [(trial, _runs_widened(trial.model())) for schema in schemas for trial in _trials(schema)]
    refused = [trial for trial, ran in runs if ran is False]
    assert len(refused) > 800
    assert [(t.schema.name, t.inputs) for t, ran in runs if ran and t.missing()] == []
    unseen = {t.schema.name for t in refused if not t.missing()}
    assert unseen <= OF_UNKNOWN_BODY


def _opsets(schema: onnx.defs.OpSchema, newest: int) -> list[int]:
    """The first and the last that have this version of an operator, but for the one that it came with."""
    versions = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if _same_operator(s, schema)}
    following = min((version for version in versions if version > schema.since_version), default=newest + 1)
    opsets = range(schema.since_version + 1, min(following - 1, newest) + 1)
    return sorted({*opsets[:1], *opsets[-1:]})


def _same_operator(one: onnx.defs.OpSchema, other: onnx.defs.OpSchema) -> bool:
    return (one.domain, one.name) == (other.domain, other.name)


def test_bodies_run_in_the_opsets_in_which_onnx_runtime_runs_them():
    """As hetpart reads a model: with the body of an operator in its place where ``onnx`` tells it."""
    newest = max(v for v in range(20, 40) if _reads_opset(v))
    wrong: list[tuple[str, str, int, str | None]] = []
    asked = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        bodies = [f for f in onnx.defs.get_all_schemas() if _same_operator(f, schema) and not f.domain]
        if not any(f.has_function or f.has_context_dependent_function for f in bodies):
            continue
        for trial, opset in product(_trials(schema), _opsets(schema, newest)):
            model = trial.model()
            model.opset_import[0].version = opset
            if _runs(model) is None:
                continue
            imported = import_onnx(model, {}, ONNX_RUNTIME)
            ran = _runs_widened(imported.proto)
            why = [missing_kernel(Provider.CPU, op, imported.graph) for op in imported.graph.ops]
            missing = next(filter(None, why), None)
            asked += 1
            if ran is not None and ran == bool(missing):
                wrong.append((schema.name, _name(trial.inputs[0]), opset, missing))
    assert asked > 800
    assert [found for found in wrong if found[0] not in OF_UNKNOWN_BODY] == []


@pytest.mark.parametrize(
    ("op_type", "dtype", "reason"),
    [
        ("Conv", "float64", "no CPU kernel for Conv-11 with float64"),
        ("MatMul", "bfloat16", None),
        ("MatMul", "uint8", "no CPU kernel for MatMul-13 with uint8"),
        ("Atanh", "float64", "no CPU kernel for Atanh-9 with float64"),
        ("Relu", "complex64", "no CPU kernel for Relu-14 with complex64"),
        ("Mish", "float64", None),
        ("Conv", "float16", None),
    ],
)
def test_a_cpu_kernel_takes_certain_types(op_type, dtype, reason):
    graph = single(op_type, [((1, 1, 2, 2), dtype)] * 2, (1, 1, 2, 2), dtype=dtype)
    assert missing_kernel(Provider.CPU, graph.ops[0], graph) == reason


@pytest.mark.parametrize("dtype", ["float16", F32, "float64", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("op_type", "shapes", "options"),
    [
        ("SkipLayerNormalization", [(2, 4, 16), (2, 4, 16), (16,)], {}),
        ("SkipSimplifiedLayerNormalization", [(2, 4, 16), (2, 4, 16), (16,)], {}),
        ("CDist", [(4, 4), (5, 4)], {"metric": "sqeuclidean"}),
        ("BiasGelu", [(2, 16), (16,)], {}),
        ("FastGelu", [(2, 16)], {}),
        ("QuickGelu", [(2, 16)], {}),
        ("FusedMatMul", [(2, 3), (3, 4)], {}),
    ],
)
def test_operators_of_onnx_runtimes_own_run_for_the_types_that_it_takes(op_type, shapes, options, dtype):
    of = {"domain": OWN, "version": 1}
    graph = single(op_type, [(shape, dtype) for shape in shapes], None, dtype=dtype, **of, **options)
    kind = {F32: TensorProto.FLOAT, "float64": TensorProto.DOUBLE}.get(dtype) or _tensor(f"tensor({dtype})")
    inputs = [helper.make_tensor_value_info(f"i{k}", kind, shape) for k, shape in enumerate(shapes)]
    node = helper.make_node(op_type, [value.name for value in inputs], ["o"], domain=OWN, **options)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(OWN, 1)]
    result = onnx.ValueInfoProto(name="o")
    model = helper.make_model(helper.make_graph([node], "g", inputs, [result]), opset_imports=opsets, ir_version=10)
    assert (missing_kernel(Provider.CPU, graph.ops[0], graph) is None) == bool(_runs_widened(model))


@pytest.mark.parametrize("provider", list(Provider))
def test_an_opset_newer_than_onnx_runtime_reads_has_no_kernels(provider):
    newest = max(v for v in range(20, 40) if _reads_opset(v))
    for version, said in (
        (newest, None),
        (newest + 1, f"ai.onnx up to opset {newest}, and the model's is {newest + 1}"),
    ):
        graph = single("Relu", [((2,), F32)], (2,), version=version)
        found = missing_kernel(provider, graph.ops[0], graph)
        assert found is None if said is None else said in str(found)


def _reads_opset(version: int) -> bool:
    relu = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 1]> g (float[2] x) => (float[2] z) { z = Relu(x) }'
    )
    relu.opset_import[0].version = version
    return _runs(relu) is True


@pytest.mark.parametrize("provider", list(Provider))
def test_a_body_must_run_too(provider):
    body = single("Atanh", [((2,), "float64")], (2,), dtype="float64")
    graph = single("If", [((), "bool")], (2,), dtype="float64", bodies=(body, body))
    assert missing_kernel(provider, graph.ops[0], graph) == "If holds 'n0': no CPU kernel for Atanh-9 with float64"


@pytest.mark.parametrize("provider", list(Provider))
def test_an_unknown_domain_or_op_has_no_kernel_anywhere(provider):
    for graph in (single("Add", [], (1,), domain="acme"), single("Nonsense", [], (1,))):
        reason = missing_kernel(provider, graph.ops[0], graph)
        assert reason is not None
        assert "no provider knows" in reason


def _cuda(graph: Graph) -> str | None:
    return missing_kernel(Provider.CUDA, graph.ops[0], graph)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options"),
    [
        ("MatMul", [((2, 2), F32), ((2, 2), F32)], {}),
        ("Conv", [((1, 1, 4, 4), "float16"), ((1, 1, 3, 3), "float16")], {}),
        ("Conv", [((1, 1, 4, 4), F32), ((1, 1, 3, 3), F32)], {"version": 7}),
        ("Gather", [((2, 2), F32), ((1,), "int64")], {}),
        ("LayerNormalization", [((2, 2), F32), ((2,), F32)], {"version": 17}),
        ("Gelu", [((2, 2), F32)], {}),
        ("Mish", [((2, 2), F32)], {}),
        ("Loop", [((), "int64"), ((), "bool"), ((2,), F32)], {}),
        ("LSTM", [((2, 2, 2), F32), ((1, 8, 2), F32), ((1, 8, 2), F32)], {}),
        ("GRU", [((2, 2, 2), F32), ((1, 6, 2), F32), ((1, 6, 2), F32)], {"linear_before_reset": 1}),
        ("LSTM", [((2, 2, 2), F32)] * 3, {"activations": ("Sigmoid", "Tanh", "Tanh")}),
        ("ArgMax", [((2, 2), F32)], {"dtype": "int64"}),
        ("ConvTranspose", [((1, 1, 4, 4), F32), ((1, 1, 3, 3), F32)], {"pads": (1, 1, 1, 1)}),
        ("MultiHeadAttention", [((1, 2, 8), F32)] * 3, {"domain": "com.microsoft", "version": 1}),
    ],
)
def test_cuda_has_a_kernel(op_type, inputs, options):
    assert _cuda(single(op_type, inputs, (2, 2), **options)) is None


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "reason"),
    [
        ("Unique", [((2,), F32)], {}, "no CUDA kernel for Unique-11"),
        ("QLinearMatMul", [((2, 2), "uint8")], {}, "no CUDA kernel for QLinearMatMul-10"),
        ("Celu", [((2,), F32)], {}, "no CUDA kernel for Celu-12"),
        ("MatMul", [((2, 2), "int32"), ((2, 2), "int32")], {}, "no CUDA kernel for MatMul-13 with int32"),
        ("Cast", [((2,), F32)], {"dtype": "string"}, "Cast uses a string, which CUDA kernels cannot"),
        ("ArgMax", [((2, 2), F32)], {"select_last_index": 1}, "refuses select_last_index"),
        ("GRU", [((2, 2, 2), F32)] * 3, {}, "refuses linear_before_reset = 0"),
        ("LSTM", [((2, 2, 2), F32)] * 3, {"clip": 1.0}, "refuses clip"),
        ("LSTM", [*[((2, 2, 2), F32)] * 4, None, *[((2, 2, 2), F32)] * 3], {}, "refuses peepholes"),
        ("RNN", [((2, 2, 2), F32)] * 3, {"activations": ("Relu",)}, "refuses activations"),
        ("ConvTranspose", [((1, 1, 4, 4), F32)] * 2, {"pads": (0, 0, 1, 1)}, "refuses asymmetric padding"),
        ("ConvTranspose", [((1, 1, 4, 4), F32)] * 2, {"auto_pad": "SAME_UPPER"}, "refuses asymmetric padding"),
        ("TreeEnsembleRegressor", [((2, 2), F32)], {"domain": "ai.onnx.ml", "version": 3}, "no CUDA kernel"),
    ],
)
def test_cuda_has_none_and_says_why(op_type, inputs, options, reason):
    graph = single(op_type, inputs, (2, 2), **options)
    assert reason in (_cuda(graph) or "")
    assert missing_kernel(Provider.CPU, graph.ops[0], graph) is None


@pytest.mark.parametrize("op_type", ["Clip", "Elu", "HardSigmoid", "LeakyRelu", "PRelu", "Relu", "Selu"])
def test_what_became_a_function_later_has_no_body_before(op_type):
    inputs = [((2,), F32)] * (2 if op_type == "PRelu" else 1)
    graph = single(op_type, inputs, (2,), version=1)
    for provider in Provider:
        assert f"kernel for {op_type}-1" in (missing_kernel(provider, graph.ops[0], graph) or "")
    names = ["a", "b"][: len(inputs)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in (*names, "y")]
    body = onnx.helper.make_graph([onnx.helper.make_node(op_type, names, ["y"])], "g", ends[:-1], ends[-1:])
    opsets = [onnx.helper.make_opsetid("", 5)]
    old = onnx.helper.make_model(body, opset_imports=opsets, ir_version=7)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
        onnxruntime.InferenceSession(old.SerializeToString(), providers=["CPUExecutionProvider"])


def test_sequences_stay_on_the_host():
    b = Builder()
    b.op("SequenceAt", [b.value(None, "", kind=ValueKind.SEQUENCE), b.value((), "int64")], (2,))
    assert "uses a sequence" in (_cuda(b.graph()) or "")


def test_an_unknown_dtype_is_no_reason_to_refuse():
    assert _cuda(single("MatMul", [(None, ""), (None, "")], None, dtype="")) is None


def test_what_only_cuda_runs_is_missing_on_the_cpu():
    graph = single("BiasSplitGelu", [((1, 2, 8), F32), ((8,), F32)], (1, 2, 4), domain="com.microsoft", version=1)
    assert _cuda(graph) is None
    assert missing_kernel(Provider.CPU, graph.ops[0], graph) == "no CPU kernel for BiasSplitGelu-1"


@pytest.mark.parametrize(
    ("op_type", "version", "slots", "expected"),
    [
        ("Reshape", 14, 2, {1}), ("Expand", 13, 2, {1}), ("Slice", 13, 5, {1, 2, 3, 4}), ("Slice", 13, 3, {1, 2}),
        ("Tile", 13, 2, {1}), ("ConstantOfShape", 9, 1, {0}), ("Range", 11, 3, {0, 1, 2}), ("Pad", 18, 4, {1, 2, 3}),
        ("Squeeze", 13, 2, {1}), ("Unsqueeze", 13, 2, {1}), ("ReduceSum", 13, 2, {1}), ("ReduceMean", 18, 2, {1}),
        ("TopK", 11, 2, {1}), ("Resize", 13, 4, {1, 2, 3}), ("Loop", 13, 3, {0, 1}), ("If", 13, 1, {0}),
        ("OneHot", 11, 3, {1, 2}), ("Split", 13, 2, {1}), ("CumSum", 14, 2, {1}), ("Trilu", 14, 2, {1}),
        ("NonMaxSuppression", 11, 5, {2, 3, 4}), ("Dropout", 13, 3, {1, 2}), ("Gather", 13, 2, set()),
        ("MatMul", 13, 2, set()), ("Add", 14, 2, set()), ("Clip", 13, 3, set()),
    ],
)  # fmt: skip
def test_operands_that_cuda_kernels_read_from_the_host(op_type, version, slots, expected):
    graph = single(op_type, [((1,), "int64")] * slots, (1,), version=version)
    assert host_inputs(graph.ops[0], graph) == expected


def test_an_operand_left_out_is_not_read():
    graph = single("Resize", [((1, 1, 2, 2), F32), None, ((4,), F32)], (1, 1, 4, 4))
    assert host_inputs(graph.ops[0], graph) == {2}


@pytest.mark.parametrize(("op_type", "expected"), [("Shape", {0}), ("Size", {0}), ("Gather", set()), ("TopK", set())])
def test_results_that_cuda_kernels_leave_on_the_host(op_type, expected):
    graph = single(op_type, [((3,), F32), ((1,), "int64")], (1,))
    assert host_outputs(graph.ops[0]) == expected


def test_facts_are_about_the_schema_an_opset_contains():
    facts = kernel_facts("", "Gather", 20)
    assert facts is not None
    assert facts.name == "Gather-13"
    assert kernel_facts("", "Gather", 10).name == "Gather-1"
