# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateImportUsage=false, reportPrivateUsage=false
"""Plans of single PyTorch operators against eager PyTorch, on the samples that PyTorch tests its own operators with.

    pip install expecttest    # PyTorch's samples import it
    python -m benchmarks.torch_ops > benchmarks/results/torch_ops.json
    python -m benchmarks.torch_ops --only amax --only nn.functional.linear --dtype int64

Every operator of ``op_db``, in every type asked for: samples as PyTorch has them, spread over their options, one of
large and infinite numbers and one with NaN. Results are compared in number, type, shape and values; what is random in
number, type and shape. Calls are partitioned twelve at a time in a process of their own; where that fails, or the
process dies, halves of them are, down to the one call that is at fault.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import resource
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import hetpart
from benchmarks.exporter_table import made_once
from benchmarks.measure import emit, machine_facts, say
from benchmarks.torch_judge import Called, Case, judged
from hetpart.errors import HetpartError

DTYPES = ("float32", "int64", "bool", "bfloat16", "float16", "float64")
HARD = {
    "large": (float("inf"), -float("inf"), -0.0, 90.0, -90.0, 3e4, -3e4, 0.5),
    "nan": (1.0, float("nan"), -2.0, 0.0, 3.0),
}
WHOLE = (2**53 + 1, 100_000_007, -(2**31), 7, 3, -1, 0, 2)
"""The hard numbers of whole ones."""
_BATCH = 12
_LONGEST = 160
_SECONDS = 120
"""For one batch; one that takes longer counts as a crash."""
_ADDRESSES = 24 * 2**30
_RANDOM = (
    "bernoulli", "dropout", "multinomial", "normal", "rand", "uniform", "empty", "exponential", "cauchy", "geometric",
    "log_normal", "rrelu", "fractional_max_pool", "svd_lowrank", "pca_lowrank",
)  # fmt: skip


class Together(torch.nn.Module):
    """Several calls."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.calls = torch.nn.ModuleList(case.called for case in cases)

    def forward(self, given: Sequence[Sequence[torch.Tensor]]) -> list[Any]:
        """What all of them return."""
        return [call(one) for call, one in zip(self.calls, given, strict=True)]


def cases_of(info: Any, dtype: str, number: int) -> Iterator[Case]:
    """``number`` samples, spread over the options they give, and the hard ones; none that PyTorch refuses."""
    torch.manual_seed(0)
    label = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)
    is_random = any(word in info.name for word in _RANDOM)
    for kind, sample in _samples(info, getattr(torch, dtype), number):
        called = Called(info.op, sample)
        with contextlib.suppress(Exception):  # PyTorch's own samples have some that it refuses
            drops = bool(sample[2].get("dropout_p"))
            yield Case(f"{label} {dtype}", kind, called, called(called.given()), is_random or drops)


def _samples(info: Any, dtype: torch.dtype, number: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    try:
        found = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception:  # noqa: BLE001 - some need packages that are not here
        return
    kinds: dict[Any, Any] = {}
    for one in found:
        shown = tuple((name, str(value)[:12]) for name, value in one.kwargs.items() if not torch.is_tensor(value))
        kinds.setdefault((shown, len(one.args)), one)
    chosen = list(kinds.values()) if len(kinds) >= number else found
    for one in chosen[:: max(1, len(chosen) // number)][:number]:
        yield "sample", (one.input, tuple(one.args), dict(one.kwargs))
    hard = {"large": WHOLE} if not dtype.is_floating_point else {} if _needs_lapack(info) else HARD
    larger = [one for one in found if torch.is_tensor(one.input) and one.input.numel() > 1]
    for kind, numbers in hard.items() if larger and dtype is not torch.bool else ():
        one = larger[0]
        content = torch.tensor(numbers, dtype=dtype).repeat(one.input.numel())[: one.input.numel()]
        yield kind, (content.view(one.input.shape), tuple(one.args), dict(one.kwargs))


def _needs_lapack(info: Any) -> bool:
    """Of what is not finite LAPACK may make anything, or end the process, as PyTorch's notes on accuracy say."""
    return "skipCPUIfNoLapack" in (getattr(one, "__name__", "") for one in info.decorators or ())


def outcomes(cases: Sequence[Case]) -> list[str] | None:
    """``equal`` for every case, or what is wrong; ``None`` where several cannot be told apart."""
    try:
        given = [case.called.given() for case in cases]
        planned = hetpart.partition(Together(cases), args=(given,), hardware="emulated", placement="all-cpu")
        made = planned.to_module(emulate=True)(given)
    except HetpartError as refused:
        return [f"refused: {refused.message[:_LONGEST]}"] if len(cases) == 1 else None
    except Exception as error:  # noqa: BLE001 - a raw error is what is looked for
        return [f"error: {type(error).__name__}: {str(error)[:_LONGEST]}"] if len(cases) == 1 else None
    return [judged(case, one) for one, case in zip(made, cases, strict=True)]


def settled(cases: Sequence[Case]) -> list[str]:
    """The outcomes of ``cases``, found in processes of their own."""
    found = _apart(cases)
    if found is not None:
        return found
    if len(cases) == 1:
        return ["crash"]
    half = len(cases) // 2
    return settled(cases[:half]) + settled(cases[half:])


def _apart(cases: Sequence[Case]) -> list[str] | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        child = os.fork()
        if child == 0:
            _write(cases, file)
        os.waitpid(child, 0)
        return json.loads(file.read_text()) if file.exists() else None


def _write(cases: Sequence[Case], file: Path) -> None:
    """Write the outcomes to ``file``, and end the process."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(file.parent)
    signal.alarm(_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    found = outcomes(cases)
    if found is not None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(file)
    os._exit(0)


def swept(places: Sequence[int], dtypes: Sequence[str], number: int) -> list[tuple[str, str, str]]:
    """Label, kind and outcome of every case of the operators at ``places`` of ``op_db``."""
    every = [
        case
        for place in places
        for dtype in dtypes
        if getattr(torch, dtype) in op_db[place].dtypes
        for case in cases_of(op_db[place], dtype, number)
    ]
    found = [one for start in range(0, len(every), _BATCH) for one in settled(every[start : start + _BATCH])]
    return [(case.label, case.kind, one) for case, one in zip(every, found, strict=True)]


def prepared() -> None:
    """What every process needs, once for all of them."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    hetpart.partition(torch.nn.Linear(2, 2), args=(torch.ones(1, 2),), hardware="emulated")


def _told(rows: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Counts of outcomes by kind of case, and every case that is not equal."""
    counts = Counter((kind, outcome.partition(":")[0]) for _, kind, outcome in rows)
    kinds = {kind: {one: number for (of, one), number in sorted(counts.items()) if of == kind} for kind in _kinds(rows)}
    wrong: dict[str, list[str]] = {}
    for label, kind, outcome in rows:
        if outcome != "equal" and f"{kind}: {outcome}" not in wrong.setdefault(label, []):
            wrong[label].append(f"{kind}: {outcome}")
    return {"compared": len(rows), "outcomes": kinds, "not_equal": dict(sorted(wrong.items()))}


def _kinds(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    return sorted({kind for _, kind, _ in rows})


def _swept_by_several(asked: argparse.Namespace) -> list[tuple[str, str, str]]:
    """What ``swept`` returns, of all operators that are asked for; what is not equal is said at once."""
    places = [place for place, info in enumerate(op_db) if asked.only is None or info.name in asked.only]
    groups = [places[start : start + 2] for start in range(0, len(places), 2)][asked.first :: asked.every]
    rows: list[tuple[str, str, str]] = []
    dtypes, number = asked.dtype or list(DTYPES), asked.samples
    with ProcessPoolExecutor(asked.jobs) as pool:
        for found in pool.map(swept, groups, [dtypes] * len(groups), [number] * len(groups)):
            rows += found
            for label, kind, outcome in found:
                if outcome != "equal":
                    say(f"{label}, {kind}: {outcome}")
    return rows


def main() -> None:
    """Prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="an operator of op_db; may be given again")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="may be given again; all, where there is none")
    parser.add_argument("--samples", type=int, default=3, help="of every operator and type, beside the hard ones")
    parser.add_argument("--every", type=int, default=1, help="only every N-th pair of operators")
    parser.add_argument("--first", type=int, default=0, help="with --every: of which pair on")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    facts = machine_facts()
    with made_once():
        prepared()
        rows = _swept_by_several(asked)
    say(f"{sum(outcome == 'equal' for *_, outcome in rows)} of {len(rows)} equal")
    emit("torch_ops", {"machine": facts, "torch": torch.__version__, **_told(rows)})


if __name__ == "__main__":
    main()
