"""Classical models of ai.onnx.ml, and text: counted by what their attributes hold."""

from __future__ import annotations

from math import log2

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import (
    ML,
    flops,
    no_arithmetic,
    per_input_element,
    per_output_element,
    serial_cycles,
    spread_cycles,
)

PER_ELEMENT: dict[str, float] = {"Binarizer": 1, "Imputer": 1, "Normalizer": 3, "Scaler": 2}
PER_LOOKUP: dict[str, float] = {"CastMap": 8, "CategoryMapper": 16, "DictVectorizer": 16, "LabelEncoder": 16}
"""A hash and a comparison for each element."""
PER_STRING: dict[str, float] = {
    "RegexFullMatch": 256, "StringConcat": 32, "StringNormalizer": 128, "StringSplit": 128, "TfIdfVectorizer": 64,
}  # fmt: skip
"""Character operations for a string of some thirty bytes."""
TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
SPLIT_FLOPS = 4.0
"""To load a node, compare, and choose a side."""
PRODUCT_FLOPS, DISTANCE_FLOPS = 2.0, 3.0
"""Per element of a support vector."""
KERNEL_FLOPS: dict[str, float] = {"LINEAR": 2, "POLY": 12, "RBF": 7, "SIGMOID": 10}
"""Of each support vector: a scale, the function as it counts alone, and a product with its coefficient."""
DECODED_PIXEL_FLOPS = 50.0
SPLIT_CYCLES = 19.5
"""Of each split on the way through a tree, whose side the processor does not foresee: 17 to 21 for 10 to 500 trees of
3 to 10 levels and 100 to 10,000 rows, 6 for a lone tree. Here and below on an EPYC 9004, taken to run at 3.5 GHz."""
DISTANCE_CYCLES, EXPONENTIAL_CYCLES = 2.1, 3.0
"""Of each element of a support vector whose distance to a row is computed, one after the other and on one thread, and
of each such vector: 23, 105 and 473 for 10, 50 and 200 elements. What is a product has a fast kernel."""
NORMALIZED_CYCLES = {"L1": 2.3, "L2": 21.0, "MAX": 1.9}
"""Of each element, by ``norm``: L2 keeps signs, which the processor does not foresee; so does Binarizer."""
ML_CYCLES = {"Binarizer": 17.0, "Imputer": 3.0}
SCALED_CYCLES = 8.8
STRING_CYCLES = {"RegexFullMatch": 260.0, "StringSplit": 350.0}
"""Of each string: 180 to 460 for 5 to 20 characters, and 230 to 580 of two words, 820 of three."""

per_input_element(PER_ELEMENT, ML)
per_input_element(PER_LOOKUP, ML)
per_input_element(PER_STRING)
per_output_element({"ImageDecoder": DECODED_PIXEL_FLOPS})
no_arithmetic(("FeatureVectorizer", "OneHotEncoder", "ZipMap"), ML)

for _op_type, _each in ML_CYCLES.items():
    serial_cycles.add(lambda o, each=_each: each * o.numel(0), (_op_type,), ML)
for _op_type, _each in STRING_CYCLES.items():
    serial_cycles.add(lambda o, each=_each: each * o.numel(0), (_op_type,))
spread_cycles.add(lambda o: SCALED_CYCLES * o.numel(0), ("Scaler",), ML)


@serial_cycles("Normalizer", domain=ML)
def _normalized(o: Operands) -> float:
    return NORMALIZED_CYCLES.get(str(o.attribute("norm", "MAX")), 0.0) * o.numel(0)


def _rows(o: Operands) -> int:
    shape = o.shape(0)
    return shape[0] if len(shape) > 1 else 1


def _length(o: Operands, *names: str) -> int:
    """Entries of the first of these attributes that is there."""
    found = (o.attribute(name, ()) for name in names)
    return next((len(entry) for entry in found if isinstance(entry, tuple) and entry), 0)


@flops("LinearClassifier", "LinearRegressor", domain=ML)
def _linear(o: Operands) -> float:
    return 2.0 * _rows(o) * _length(o, "coefficients")


@flops("SVMClassifier", "SVMRegressor", domain=ML)
def _support_vectors(o: Operands) -> float:
    """The kernel function of a row with every support vector, or a plain product where there are none."""
    elements = _length(o, "support_vectors")
    if not elements:
        return 2.0 * _rows(o) * _length(o, "coefficients")
    features = max(1, o.numel(0) // max(1, _rows(o)))
    kernel = str(o.attribute("kernel_type", "LINEAR"))
    each = DISTANCE_FLOPS if kernel == "RBF" else PRODUCT_FLOPS
    return _rows(o) * (each * elements + KERNEL_FLOPS.get(kernel, 0.0) * (elements / features))


@serial_cycles("SVMClassifier", "SVMRegressor", domain=ML)
def _distances(o: Operands) -> float:
    elements = _length(o, "support_vectors") if o.attribute("kernel_type", "LINEAR") == "RBF" else 0
    features = max(1, o.numel(0) // max(1, _rows(o)))
    return _rows(o) * elements * (DISTANCE_CYCLES + EXPONENTIAL_CYCLES / features)


@flops(*TREES, domain=ML)
def _trees(o: Operands) -> float:
    """A path through every tree, as long as a balanced tree of its size is deep."""
    trees, nodes = _forest(o)
    return SPLIT_FLOPS * _rows(o) * trees * log2(max(2, nodes / trees))


@spread_cycles(*TREES, domain=ML)
def _split(o: Operands) -> float:
    """Half of the nodes are leaves; a ``TreeEnsemble`` lists them apart."""
    trees, nodes = _forest(o)
    splits = nodes / trees if o.op.op_type == "TreeEnsemble" else (nodes / trees - 1) / 2
    return SPLIT_CYCLES * _rows(o) * trees * log2(max(1, splits + 1))


def _forest(o: Operands) -> tuple[int, int]:
    """Its trees and nodes."""
    roots = o.attribute("tree_roots", o.attribute("nodes_treeids", ()))
    trees = max(1, len(set(roots)) if isinstance(roots, tuple) else 1)
    return trees, _length(o, "nodes_treeids", "nodes_featureids")
