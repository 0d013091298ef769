"""The order in which ONNX Runtime runs the kernels of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hetpart.cost_model.session.reuse import Kernel

FUSED, LAID_OUT, BETWEEN = 1, 2, 3
"""By how many times the count of ops the number is raised of a kernel of several ops, of one that computes on channels
in blocks or last, and of what brings a value into another form."""
IN_MODEL = -1
"""The number of what brings a value into another form as a node of the model, right before or behind the one that it is
for: hetpart's own Casts of bfloat16, which ONNX Runtime knows nothing about."""
MOST_FORMS = 3
"""Of one value: as it is, in float32, and on another layout."""


def in_order(
    kernels: Sequence[Kernel], index: Sequence[int], count: int, is_early: Callable[[Kernel], bool]
) -> tuple[Kernel, ...]:
    """Kernels as ONNX Runtime's depth-first walk from the outputs visits them: what has the highest number first.

    The nodes that its optimiser makes have numbers behind all others, in the order of that walk of the nodes that were
    there before: those of several ops first, then those that compute on other layouts.

    Args:
        kernels: In any order.
        index: Their numbers: of one op its id, of others the last one's, raised by what they are; or ``IN_MODEL``.
        count: Of ops, by which numbers are raised.
        is_early: Whether a kernel of several ops is one of those that are made first.
    """
    sources, times = _sources(kernels), Counter(index)
    forms = [0 if number == IN_MODEL else number // count for number in index]
    laid_out = [form == LAID_OUT for form in forms]
    # The kernels of a body have one number: its nodes are put in, in their order, before others are made anew.
    put_in = [form == FUSED and times[number] > 1 for form, number in zip(forms, index, strict=True)]
    fused = [
        (form == FUSED and not inside) or (form == LAID_OUT and len(kernel.ops) > 1)
        for form, inside, kernel in zip(forms, put_in, kernels, strict=True)
    ]
    own = [_with_own_number(position, forms, sources) for position in range(len(kernels))]
    places = [number % count for number in index]
    numbers = [places[position] + put_in[position] * count for position in own]
    if IN_MODEL in index:
        numbers = _with_casts(numbers, index, places, kernels, sources)
    early = [anew and is_early(kernel) for anew, kernel in zip(fused, kernels, strict=True)]
    late = [anew and not soon for anew, soon in zip(fused, early, strict=True)]
    for anew in (early, late, laid_out):
        if any(anew):
            numbers = _renumbered(numbers, anew, sources)
    if any(form >= BETWEEN for form in forms):
        numbers = _with_between(numbers, index, count, sources)
    return tuple([kernels[position] for position in walk(numbers, sources)])


def _sources(kernels: Sequence[Kernel]) -> list[set[int]]:
    """Per kernel: positions of those that make what it reads."""
    producer = {made.value: position for position, kernel in enumerate(kernels) for made in kernel.makes}
    return [{producer[value] for value in kernel.reads if value in producer} for kernel in kernels]


def _with_own_number(position: int, forms: Sequence[int], sources: Sequence[set[int]]) -> int:
    """The kernel itself, or before what brings a value into another form the one that makes it."""
    for _ in range(MOST_FORMS):
        if forms[position] < BETWEEN or not sources[position]:
            break
        position = min(sources[position])
    return position


def _with_casts(
    numbers: Sequence[float], index: Sequence[int], places: Sequence[int], kernels: Sequence[Kernel],
    sources: Sequence[set[int]],
) -> list[float]:  # fmt: skip
    """``numbers`` with those of nodes ``IN_MODEL``: before the first op that reads one, in the order it reads them in.

    What brings a value back stands behind the op that makes it. Values in another form have negative numbers.
    """
    asked: dict[int, float] = {}
    for position, kernel in enumerate(kernels):
        for turn, value in enumerate(kernel.reads if index[position] != IN_MODEL else ()):
            before = places[position] - 0.5 + turn / 1000
            asked[value] = min(asked.get(value, before), before)
    found = list(numbers)
    for position, kernel in enumerate(kernels):
        made = kernel.makes[0].value
        if index[position] == IN_MODEL and made < 0:
            found[position] = asked.get(made, found[position])
        elif index[position] == IN_MODEL and sources[position]:
            found[position] = places[min(sources[position])] + 0.5
    return found


def _renumbered(numbers: Sequence[float], anew: Sequence[bool], sources: Sequence[set[int]]) -> list[float]:
    """``numbers`` with even ones behind all others for the nodes ``anew``, in the order of the walk."""
    first, found = int(max(numbers)) + 1 & ~1, list(numbers)
    for turn, position in enumerate(walk(numbers, sources), 1):
        if anew[position]:
            found[position] = first + 2 * turn
    return found


def _with_between(
    numbers: Sequence[float], index: Sequence[int], count: int, sources: Sequence[set[int]]
) -> list[float]:
    """``numbers`` with those of nodes that bring values into other forms.

    They are made behind all others, but where an op that computes on another layout is the first to ask for one: right
    behind that.
    """
    behind, found = max(numbers) + 1, list(numbers)
    asked: dict[int, float] = {}
    for position, before in enumerate(sources):
        if index[position] // count == LAID_OUT:
            asked.update((maker, min(numbers[position] + 1, asked.get(maker, behind))) for maker in before)
    for position, number in enumerate(index):
        if number // count >= BETWEEN:
            found[position] = asked.get(position, behind + number)
    return found


def walk(numbers: Sequence[float], sources: Sequence[set[int]]) -> list[int]:
    """Positions in the order of ONNX Runtime's walk from what nobody reads: what has the highest number first.

    Args:
        numbers: Of every position.
        sources: Per position: those that it reads from.
    """
    inner = {position for before in sources for position in before}
    stack = [(p, False) for p in sorted(range(len(sources)), key=lambda p: numbers[p]) if p not in inner]
    seen: set[int] = set()
    order: list[int] = []
    while stack:
        position, leaving = stack.pop()
        if leaving:
            order.append(position)
        elif position not in seen:
            seen.add(position)
            stack.append((position, True))
            stack += [(p, False) for p in sorted(sources[position], key=lambda p: numbers[p]) if p not in seen]
    return order
