"""Large constants are weights in whatever form the file has them; sparse ones are derived weights of dense size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hetpart
from hetpart.errors import InvalidModelError
from hetpart.graph.from_onnx import import_onnx
from hetpart.graph.ir import ValueRole
from tests.graph.models import assert_read_as_it_is, every_value

FEED = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(True)}
VALUES = np.array([1.5, -2, 4], np.float32)


def sparse(indices: object, dims: list[int], values: np.ndarray = VALUES, name: str = "w") -> onnx.SparseTensorProto:
    held = numpy_helper.from_array(values, name)
    return helper.make_sparse_tensor(held, numpy_helper.from_array(np.array(indices, np.int64), "i"), dims)


def model(nodes: list[onnx.NodeProto], opset: int = 18, **parts: object) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, None)], **parts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


PRODUCT = helper.make_node("MatMul", ["x", "w"], ["y"])
PLACES = {"rows and columns": [[0, 1], [1, 0], [2, 3]], "counted": [1, 4, 11]}


@pytest.mark.parametrize("indices", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("place", ["initializer", "constant", "body"])
def test_a_sparse_tensor_is_the_dense_one(indices: object, place: str) -> None:
    held = sparse(indices, [3, 4])
    constant = helper.make_node("Constant", [], ["w"], sparse_value=held)
    if place == "body":
        bodies = [
            helper.make_graph(
                [constant, helper.make_node("MatMul", ["x", "w"], ["r"]), helper.make_node("MatMul", ["x", "v"], ["q"]),
                 helper.make_node("Add", ["r", "q"], ["o"])],
                name, [], [helper.make_tensor_value_info("o", 1, [2, 4])],
                sparse_initializer=[sparse(indices, [3, 4], name="v")],
            )
            for name in ("then", "else")
        ]  # fmt: skip
        given = model([helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])])
    elif place == "constant":
        given = model([constant, PRODUCT])
    else:
        given = model([PRODUCT], sparse_initializer=[held])
    graph = assert_read_as_it_is(given, FEED).graph
    if place != "body":
        weight = graph.value_named("w")
        assert (weight.role, weight.shape, weight.nbytes) == (ValueRole.DERIVED, (3, 4), 48)
        assert [op.op_type for op in graph.ops] == ["MatMul"]


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8", "bool"])
def test_a_sparse_tensor_of_any_type_is_the_dense_one(dtype: str) -> None:
    given = model(
        [helper.make_node("Cast", ["w"], ["y"], to=1)],
        sparse_initializer=[sparse([0, 3, 2], [4], VALUES.astype(dtype))],
    )
    assert_read_as_it_is(given, FEED)


def test_a_sparse_tensor_that_is_returned_is_dense() -> None:
    given = model([PRODUCT], sparse_initializer=[sparse([1, 4, 11], [3, 4])])
    given.graph.output.append(helper.make_tensor_value_info("w", 1, [3, 4]))
    found = every_value(import_onnx(given), FEED)
    np.testing.assert_array_equal(found["w"], [[0, 1.5, 0, 0], [-2, 0, 0, 0], [0, 0, 0, 4]])


def test_a_huge_sparse_tensor_is_not_made_dense_by_planning() -> None:
    given = model(
        [helper.make_node("Gather", ["w", "at"], ["y"])], sparse_initializer=[sparse([1, 4, 11], [10**9, 64])]
    )
    given.graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "at"))
    weight = import_onnx(given).graph.value_named("y")
    assert weight.shape == (2, 64)
    with pytest.raises(hetpart.InfeasibleError):
        hetpart.partition(given, hardware="l4+generic-2core", budget="cpu=1GB")


@pytest.mark.parametrize(
    ("indices", "dims", "values"),
    [
        ([1, 4], [3, 4], VALUES),
        ([[0, 1], [1, 0]], [3, 4], VALUES),
        ([[0], [1], [2]], [3, 4], VALUES),
        ([1, 4, 11], [3, -4], VALUES),
        ([1, 4, 11], [2**40, 2**40], VALUES),
        ([1, 4, 11], [], VALUES),
        ([1, 4, 11], [3, 4], VALUES.reshape(1, 3)),
        ([1, 4, 11], [3, 4], np.array(["a", "b", "c"], object)),
    ],
)
def test_a_malformed_sparse_tensor_is_refused(indices: object, dims: list[int], values: np.ndarray) -> None:
    with pytest.raises(InvalidModelError, match="sparse tensor 'w'"):
        import_onnx(model([PRODUCT], sparse_initializer=[sparse(indices, dims, values)]))


def test_a_sparse_tensor_of_an_opset_without_scatter_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="opset 10 has no op"):
        import_onnx(model([PRODUCT], opset=10, sparse_initializer=[sparse([1, 4, 11], [3, 4])]))


def big(name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.random.default_rng(1).standard_normal((3, 2000)).astype(np.float32), name)


def constant(name: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=big(""))


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=nodes[-1].output[0])])


LARGE = {
    "used": [constant("w"), PRODUCT],
    "returned": [constant("y")],
    "in a body": [
        helper.make_node(
            "If", ["c"], ["y"],
            then_branch=branch("t", constant("w"), helper.make_node("MatMul", ["x", "w"], ["p"])),
            else_branch=branch("e", constant("v"), helper.make_node("MatMul", ["x", "v"], ["q"])),
        )
    ],
    "returned by a body": [
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("t", constant("p")), else_branch=branch("e", constant("q"))
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("nodes", LARGE.values(), ids=LARGE)
def test_a_large_constant_is_a_weight(tmp_path: Path, nodes: list[onnx.NodeProto]) -> None:
    given = model(nodes)
    imported = assert_read_as_it_is(given, FEED)
    assert not any(node.op_type == "Constant" for node in imported.proto.graph.node)
    path = tmp_path / "m.onnx"
    path.write_bytes(given.SerializeToString())
    from_file = hetpart.partition(path, hardware="emulated", placement="random:1")
    assert from_file.imported.proto.ByteSize() < 2000
    with from_file.session(emulate=True) as one, hetpart.partition(given, hardware="emulated").session() as other:
        feeds = {value.name: FEED[value.name] for value in one.get_inputs()}
        np.testing.assert_array_equal(one.run(None, feeds)[0], other.run(None, feeds)[0])


def test_two_partitions_share_a_large_constant_in_the_file(tmp_path: Path) -> None:
    given = model([constant("w"), PRODUCT, helper.make_node("MatMul", ["x", "w"], ["z"])])
    given.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    path = tmp_path / "m.onnx"
    path.write_bytes(given.SerializeToString())
    plan = hetpart.partition(path, hardware="emulated", placement="random:3").plan
    assert plan.model.weight_bytes == 3 * 2000 * 4
