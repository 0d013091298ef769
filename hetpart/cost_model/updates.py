"""Ops that change a few elements of a tensor, and where they do it without a copy of the rest.

Which kernels may is their ``MayInplace`` in ONNX Runtime; ``tests/cost_model/test_updates.py`` asks it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetpart.cost_model.wiring import Wiring
from hetpart.devices import Provider
from hetpart.graph.ir import Op

UPDATES: Mapping[Provider, frozenset[str]] = {
    Provider.CPU: frozenset({"Scatter", "ScatterElements", "TensorScatter"}),
    Provider.CUDA: frozenset({"ScatterND", "TensorScatter"}),
}
"""Their kernels may write over their first input. The others copy it, as all do with inputs of the session."""
UPDATING = frozenset[str]().union(*UPDATES.values())
VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Their output is their first input, under another name."""


def in_place_on(op: Op, wiring: Wiring) -> frozenset[Provider]:
    """Providers on which ``op`` updates what a session holds for it alone, when all of the graph is one session."""
    if op.domain or op.op_type not in UPDATING or not _is_alone(op, wiring):
        return frozenset()
    return frozenset(provider for provider, types in UPDATES.items() if op.op_type in types)


def _is_alone(op: Op, wiring: Wiring) -> bool:
    """Whether an op makes what ``op`` updates, and nothing else reads it, under whatever name.

    Where something does, and runs before, ONNX Runtime updates in place too: that is left out, since its order tells.
    """
    reader = op
    while True:
        read = wiring.inputs(reader)
        value = read[0] if read else None
        maker = wiring.producer(value)
        if value is None or maker is None or value in wiring.returned or len(wiring.consumers[value]) != 1:
            return False
        if maker.domain or maker.op_type not in VIEWS:
            return read.count(value) == 1
        reader = maker
