"""DLRM with the table sizes of the Criteo Kaggle data set (Naumov et al. 2019, arXiv 1906.00091)."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from examples.wide_and_deep import WeightFile, perceptron, save

CRITEO_KAGGLE = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
DENSE = 13
DIM = 16
BOTTOM = (512, 256, 64, DIM)
TOP = (512, 256, 1)
VECTORS = len(CRITEO_KAGGLE) + 1


def table_rows(rows_cap: int | None = None, largest: int | None = None) -> list[int]:
    """Rows of every table: none has more than ``rows_cap``, and the largest has ``largest`` where that is given."""
    rows = [min(size, rows_cap) if rows_cap else size for size in CRITEO_KAGGLE]
    if largest:
        rows[rows.index(max(rows))] = largest
    return rows


def build(
    path: Path, *, rows_cap: int | None = None, largest: int | None = None, seed: int = 0, sparse: bool = False
) -> Path:
    """Writes DLRM: ``dense`` [batch, 13] and ``ids`` int64 [batch, 26] → ``probability`` [batch, 1].

    ``rows_cap`` and ``largest`` are those of ``table_rows``.
    """
    weights = WeightFile.beside(path, seed, sparse=sparse)
    make = helper.make_node
    rows = table_rows(rows_cap, largest)
    columns = [f"ids/{table}" for table in range(len(rows))]
    vectors = [f"table.{table}/rows" for table in range(len(rows))]
    nodes = [make("Split", ["ids"], columns, name="/Split", axis=1, num_outputs=len(rows))]
    for table, size in enumerate(rows):
        weight = weights.normal(f"table.{table}", (size, DIM), 1 / sqrt(DIM))
        nodes.append(make("Gather", [weight, columns[table]], [vectors[table]], name=f"/table.{table}/Gather"))
    nodes += perceptron(weights, "bottom", "dense", (DENSE, *BOTTOM))
    nodes += [
        make("Unsqueeze", ["bottom/out", "axis"], ["bottom/vector"], name="/Unsqueeze"),
        make("Concat", ["bottom/vector", *vectors], ["interaction/vectors"], name="/interaction/Concat", axis=1),
        make(
            "Transpose", ["interaction/vectors"], ["interaction/turned"], name="/interaction/Transpose", perm=[0, 2, 1]
        ),
        make("MatMul", ["interaction/vectors", "interaction/turned"], ["interaction/dots"], name="/interaction/MatMul"),
        make("Reshape", ["interaction/dots", "flat"], ["interaction/flat"], name="/interaction/Reshape"),
        make("Gather", ["interaction/flat", "pairs"], ["interaction/pairs"], name="/interaction/Gather", axis=1),
        make("Concat", ["bottom/out", "interaction/pairs"], ["features"], name="/Concat", axis=1),
    ]
    nodes += perceptron(weights, "top", "features", (DIM + VECTORS * (VECTORS - 1) // 2, *TOP))
    nodes.append(make("Sigmoid", ["top/out"], ["probability"], name="/Sigmoid"))
    inputs = [
        helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["batch", DENSE]),
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", len(rows)]),
    ]
    outputs = [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 1])]
    save(helper.make_graph(nodes, "dlrm", inputs, outputs, [*weights.tensors, *_indices()]), path)
    return path


def _indices() -> list[TensorProto]:
    below_diagonal = np.flatnonzero(np.tri(VECTORS, k=-1).reshape(-1))
    named = {"axis": [1], "flat": [0, VECTORS * VECTORS], "pairs": below_diagonal}
    return [numpy_helper.from_array(np.asarray(entries, np.int64), name) for name, entries in named.items()]
