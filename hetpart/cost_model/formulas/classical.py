"""Classical models of ai.onnx.ml, and text: counted by what their attributes hold."""

from __future__ import annotations

from math import log2

from hetpart.cost_model.formulas.operands import Operands
from hetpart.cost_model.formulas.table import ML, flops, no_arithmetic, per_input_element, per_output_element

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

per_input_element(PER_ELEMENT, ML)
per_input_element(PER_LOOKUP, ML)
per_input_element(PER_STRING)
per_output_element({"ImageDecoder": DECODED_PIXEL_FLOPS})
no_arithmetic(("FeatureVectorizer", "OneHotEncoder", "ZipMap"), ML)


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


@flops(*TREES, domain=ML)
def _trees(o: Operands) -> float:
    """A path through every tree, as long as a balanced tree of its size is deep."""
    nodes = _length(o, "nodes_treeids", "nodes_featureids")
    roots = o.attribute("tree_roots", o.attribute("nodes_treeids", ()))
    trees = max(1, len(set(roots)) if isinstance(roots, tuple) else 1)
    return SPLIT_FLOPS * _rows(o) * trees * log2(max(2, nodes / trees))
