"""Make feeds up where none are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.graph.granted import Granted
from hetpart.plan.model import ValueForm, ValueSpec
from hetpart.runtime.dtypes import numpy_dtype
from hetpart.runtime.feeds import describe

_NOTHING = Granted()
_SMALL_INTEGERS = 2
"""Integers that index no table are drawn from 0 and 1: right for masks, flags and lengths."""


def random_feeds(
    specs: Sequence[ValueSpec],
    seed: int,
    granted: Granted = _NOTHING,
    told: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Any]:
    """Seeded inputs: floats from a standard normal, ids within the table they index, other integers 0 or 1.

    Open sizes are 1, and what they and numbers were in the example where something is ``granted`` of them. What the
    model says that inputs may be given is ``told``.

    Raises:
        InvalidFeedError: an input is no tensor of numbers, or the model tells of another number of elements.
    """
    rng = np.random.default_rng(seed)
    examples = {(size.input, size.axis): size.example for size in granted.sizes}
    known = told or {}
    return {
        spec.name: _told(spec, known[spec.name]) if spec.name in known else _random(spec, rng, examples)
        for spec in specs
    }


def _told(spec: ValueSpec, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
    dtype, shape = numpy_dtype(spec.dtype), [size or 1 for size in spec.shape or ()]
    if len(numbers) not in (1, prod(shape)):
        raise InvalidFeedError(
            f"the model has {len(numbers)} numbers for the input {describe(spec)}",
            hint="save the step again, or give it with --input NAME=FILE.npy",
        )
    return np.full(shape, numbers[0], dtype) if len(numbers) == 1 else np.array(numbers, dtype).reshape(shape)


def _random(
    spec: ValueSpec, rng: np.random.Generator, examples: Mapping[tuple[str, int | None], int]
) -> np.ndarray[Any, Any]:
    dtype = numpy_dtype(spec.dtype)
    if spec.form is ValueForm.OPAQUE or dtype is None or spec.shape is None:
        raise InvalidFeedError(
            f"input {describe(spec)} cannot be made up at random",
            hint="give it with --input NAME=FILE.npy"
            if spec.shape is not None
            else "no .npy file holds one either: feed it through hetpart.Session(bundle).run",
        )
    if (spec.name, None) in examples:
        return np.asarray(examples[spec.name, None], dtype)
    shape = [examples.get((spec.name, axis), 1) if size is None else size for axis, size in enumerate(spec.shape)]
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        most = 2 ** (8 * dtype.itemsize - 1)
        return rng.integers(0, min(spec.range or _SMALL_INTEGERS, most), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
