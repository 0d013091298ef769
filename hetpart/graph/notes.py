# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a model's file says of itself as a whole: what its inputs are, and which ops share a device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hetpart.errors import InvalidModelError

if TYPE_CHECKING:
    import onnx

STATES = "hetpart.states"
"""Key of the model's metadata: a JSON object of inputs, with the outputs that replace them."""
TOGETHER = "hetpart.together"
"""Key of the model's metadata: a JSON array of arrays of names of ops."""

EXAMPLES = "hetpart.examples"
"""Key of the model's metadata: a JSON object of inputs, each with numbers that it may be given: one for all elements,
or one for each."""


def write_notes(
    model: onnx.ModelProto,
    states: Mapping[str, str],
    together: Sequence[Sequence[str]],
    examples: Mapping[str, Sequence[float]],
) -> None:
    """Let ``model`` say so; what it said before of these is gone."""
    others = [entry for entry in model.metadata_props if entry.key not in (STATES, TOGETHER, EXAMPLES)]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    told = {name: list(numbers) for name, numbers in examples.items()}
    for key, found in ((STATES, dict(states)), (TOGETHER, [list(names) for names in together]), (EXAMPLES, told)):
        if found:
            model.metadata_props.add(key=key, value=json.dumps(found))


def states_of(model: onnx.ModelProto) -> dict[str, str]:
    """Inputs, with the outputs that replace them.

    Raises:
        InvalidModelError: what the file says is of another form.
    """
    found = _read(model, STATES, "{}")
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise _refused(STATES, "no object of texts")
    return found


def together_of(model: onnx.ModelProto) -> tuple[tuple[str, ...], ...]:
    """Names of ops that share a device.

    Raises:
        InvalidModelError: what the file says is of another form.
    """
    found = _read(model, TOGETHER, "[]")
    if not isinstance(found, list) or not all(_is_texts(names) for names in found):
        raise _refused(TOGETHER, "no array of arrays of texts")
    return tuple(tuple(names) for names in found)


def examples_of(model: onnx.ModelProto) -> dict[str, tuple[float, ...]]:
    """Inputs, with numbers that they may be given.

    Raises:
        InvalidModelError: what the file says is of another form.
    """
    found = _read(model, EXAMPLES, "{}")
    if not isinstance(found, dict) or not all(_is_numbers(numbers) for numbers in found.values()):
        raise _refused(EXAMPLES, "no object of arrays of numbers")
    return {name: tuple(float(number) for number in numbers) for name, numbers in found.items()}


def _is_numbers(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(type(number) in (int, float) for number in found)


def _read(model: onnx.ModelProto, key: str, without: str) -> object:
    text = next((entry.value for entry in model.metadata_props if entry.key == key), without)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(key, f"no JSON: {error}") from error


def _is_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(name, str) for name in found)


def _refused(key: str, why: str) -> InvalidModelError:
    return InvalidModelError(
        f"the model's metadata has {key!r}, which is {why}", hint="save the step again, or drop it"
    )
