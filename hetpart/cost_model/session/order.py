"""The order in which ONNX Runtime runs the kernels of a session."""

from __future__ import annotations

from collections.abc import Sequence

from hetpart.cost_model.session.reuse import Kernel


def in_order(kernels: Sequence[Kernel], index: Sequence[int]) -> tuple[Kernel, ...]:
    """Kernels as ONNX Runtime's depth-first walk from the outputs visits them: what has the highest number first."""
    producer = {made.value: position for position, kernel in enumerate(kernels) for made in kernel.makes}
    before = [{producer[v] for v in kernel.reads if v in producer} for kernel in kernels]
    inner = {position for sources in before for position in sources}
    stack = [(p, False) for p in sorted(range(len(kernels)), key=lambda p: index[p]) if p not in inner]
    seen: set[int] = set()
    order: list[Kernel] = []
    while stack:
        position, leaving = stack.pop()
        if leaving:
            order.append(kernels[position])
        elif position not in seen:
            seen.add(position)
            stack.append((position, True))
            stack += [(p, False) for p in sorted(before[position], key=lambda p: index[p]) if p not in seen]
    return tuple(order)
