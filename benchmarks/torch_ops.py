"""Plans of single PyTorch operators against eager PyTorch, on the samples that PyTorch tests its own operators with.

    python -m benchmarks.torch_ops --samples 3 -o torch_ops.json

Every operator of ``torch.testing._internal.common_methods_invocations.op_db``, in every type asked for, is exported,
partitioned and run, and its results are compared: number, type, shape and values, NaN included. What is random is
compared in number, type and shape. Every operator has a process of its own, so that one that ends it ends no other.
PyTorch's samples need ``pip install expecttest``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import hetpart
from hetpart.errors import HetpartError

DTYPES = ("float32", "int64", "bool", "bfloat16", "float16")
_LONGEST = 200
_ALARM = 120
"""Seconds for the samples of one operator in one type."""
_RANDOM = (
    "bernoulli", "dropout", "multinomial", "normal", "rand", "uniform", "empty", "exponential", "cauchy", "geometric",
    "log_normal", "rrelu",
)  # fmt: skip


class Called(torch.nn.Module):
    """A call of an operator: its tensors are the arguments, and the rest of it is constant."""

    def __init__(self, operator: Any, sample: Any) -> None:
        super().__init__()
        self.operator = operator
        leaves, self.spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.given = [leaves[place] for place in self.places]

    def forward(self, *given: torch.Tensor) -> Any:
        leaves = list(self.rest)
        for place, tensor in zip(self.places, given, strict=True):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(first, *args, **kwargs)


def samples_of(info: Any, dtype: torch.dtype, number: int) -> Iterator[Called]:
    """``number`` samples, spread over all there are."""
    every = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    for sample in every[:: max(1, len(every) // number)][:number]:
        yield Called(info.op, sample)


def outcome(called: Called, *, is_random: bool) -> str:
    """``equal``, or what is wrong."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = called(*(tensor.clone() for tensor in called.given))
        except Exception:  # noqa: BLE001 - PyTorch's own samples have some that it refuses
            return "no sample"
        try:
            planned = hetpart.partition(called, args=tuple(called.given), hardware="emulated")
            made = planned.to_module(emulate=True)(*called.given)
        except HetpartError as refused:
            return f"refused: {refused.message[:_LONGEST]}"
        except Exception as error:  # noqa: BLE001 - a raw error is what is looked for
            return f"error: {type(error).__name__}: {str(error)[:_LONGEST]}"
    return compared(made, wanted, is_random=is_random)


def compared(made: Any, wanted: Any, *, is_random: bool) -> str:
    """Whether results are the same."""
    ours, theirs = pytree.tree_leaves(made), pytree.tree_leaves(wanted)
    if len(ours) != len(theirs):
        return f"differs: {len(ours)} results, and {len(theirs)} of PyTorch's"
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor) and is_random:
            one, other = torch.zeros_like(one), torch.zeros_like(other)
        try:
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance(other))
        except AssertionError as error:
            return f"differs: {' '.join(str(error).split())[:_LONGEST]}"
    return "equal"


def tolerance(value: Any) -> dict[str, float]:
    """Of sums in another order."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return {}
    half = value.dtype in (torch.float16, torch.bfloat16)
    return {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-4}


def alone(info: Any, dtype: str, number: int) -> list[str]:
    """The outcomes of an operator's samples, found in a process of its own."""
    with tempfile.NamedTemporaryFile("r+", suffix=".json") as file:
        child = os.fork()
        if child == 0:
            _found(info, dtype, number, Path(file.name))
        _, status = os.waitpid(child, 0)
        text = Path(file.name).read_text()
    found = json.loads(text) if text else []
    return found if status == 0 else [*found, f"crash: status {status}"]


def _found(info: Any, dtype: str, number: int, file: Path) -> None:
    """Write the outcomes to ``file`` as they are found, and end the process."""
    import signal

    signal.alarm(_ALARM)
    with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing), contextlib.redirect_stdout(nothing):
        found: list[str] = []
        is_random = any(word in info.name for word in _RANDOM)
        for called in samples_of(info, getattr(torch, dtype), number):
            found.append(outcome(called, is_random=is_random))
            file.write_text(json.dumps(found))
    os._exit(0)


def swept(names: list[str], dtypes: list[str], number: int) -> dict[str, Any]:
    """By operator and type, what is not equal; and how often there was what."""
    rows: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for info in op_db:
        label = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        if names and info.name not in names:
            continue
        for dtype in dtypes:
            if getattr(torch, dtype) not in info.dtypes:
                continue
            found = alone(info, dtype, number)
            counts.update(one.partition(":")[0] for one in found)
            wrong = sorted({one for one in found if one not in ("equal", "no sample")})
            if wrong:
                rows[f"{label} {dtype}"] = wrong
                print(f"{label} {dtype}: {wrong[0]}", file=sys.stderr, flush=True)
    return {"torch": torch.__version__, "samples": dict(sorted(counts.items())), "operators": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="names; all, where there is none")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="repeatable; all, where there is none")
    parser.add_argument("--samples", type=int, default=3, help="of every operator and type")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    hetpart.partition(torch.nn.Linear(2, 2), args=(torch.ones(1, 2),), hardware="emulated")  # imports, once for all
    text = json.dumps(swept(asked.operators, asked.dtype or list(DTYPES), asked.samples), indent=1)
    if asked.output:
        asked.output.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
