"""Which kernels ONNX Runtime's optimiser makes anew, as they compute on the way what stood before them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from hetpart.cost_model.foldings import OPERANDS, VIEWS
from hetpart.cost_model.quantized import OF_ANY_WIDTH
from hetpart.cost_model.session.integers import QUANTIZERS
from hetpart.cost_model.session.simplify import Simplified
from hetpart.graph.ir import Op

INTO_WEIGHTS = frozenset({"Add", "BatchNormalization", "Mul"})
"""What becomes part of a convolution's weights, and leaves it the node that it was."""
MOVING = OF_ANY_WIDTH - {"Split"} | {"MaxPool", "Resize"}
"""What stays the node that it was without the quantizers around it: ``DropQDQ`` of the optimiser takes them away."""


def node_number(members: Sequence[Op], ops: int, anew: Container[int]) -> int:
    """ONNX Runtime's number of the node that ``members`` run as: what its optimiser makes comes behind all ``ops``.

    Args:
        members: A convolution first.
        ops: Of the graph.
        anew: ``remade``.
    """
    first, last = members[0], members[-1].id
    left = [op for op in members if op.op_type not in QUANTIZERS]
    if len(members) > 1 and len(left) == 1 and left[0].op_type in MOVING and not left[0].domain:
        return left[0].id
    if first.op_type == "Conv" and not first.domain and INTO_WEIGHTS.issuperset(op.op_type for op in members[1:]):
        return first.id
    return last + ops * (len(members) > 1 or last in anew)


def remade(whole: Simplified, folded: Container[int], returned: frozenset[int]) -> frozenset[int]:
    """Ids of products whose operand is transposed or scaled before, and of views behind views.

    What a Pad or a Relu vanishes into stays the node that it was, and so does a Reshape between a Transpose and the
    product that takes it over.

    Args:
        whole: A session before anything vanishes.
        folded: Ops that vanish into what reads them.
        returned: Values that leave the session.
    """
    vanished: dict[int, Op] = {}
    found: set[int] = set()
    for op in whole.ops:
        before = next((vanished[v] for v in map(whole.value, op.uses) if v in vanished), None)
        if op.id in folded and returned.isdisjoint(op.results):
            vanished |= dict.fromkeys(op.results, op) if op.op_type in (*OPERANDS, *VIEWS) else {}
        elif before is not None and op.op_type in VIEWS and before.op_type not in VIEWS:
            vanished |= dict.fromkeys(op.results, before)
        elif before is not None:
            found.add(op.id)
    return frozenset(found)
