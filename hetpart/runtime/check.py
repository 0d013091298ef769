# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Run a bundle, measure it, and compare it with the uncut model: ``hetpart run``."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from hetpart.errors import HetpartError, InvalidFeedError
from hetpart.plan.run import CheckResult, OutputSpec, RunReport
from hetpart.plan.streamed import streamed_weights
from hetpart.runtime.arrays import as_planned, write_arrays
from hetpart.runtime.compare import compare
from hetpart.runtime.footprint import resident_bytes
from hetpart.runtime.log import log_run
from hetpart.runtime.profiles import profiling_options
from hetpart.runtime.random_feeds import random_feeds
from hetpart.runtime.session import Session
from hetpart.runtime.uncut import run_uncut

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from hetpart.plan.model import Plan
    from hetpart.runtime.providers import ProviderOption


class Opening(TypedDict, total=False):
    """Keywords of ``Session`` that a run passes on; they mean what they mean there."""

    emulate: bool
    threads: int | None
    verify: str
    overlap: bool | None
    emulate_link: str | float | None
    mode: Literal["partitions", "native"]
    provider: ProviderOption
    cuda_graph: bool


def run(  # noqa: PLR0913 - the options of the command
    bundle: Path,
    *,
    feeds: Mapping[str, Any] | None = None,
    random_seed: int | None = None,
    repeat: int = 1,
    check: bool = False,
    exact: bool = False,
    output: Path | None = None,
    trace: Path | None = None,
    verbosity: int = 0,
    progress: Callable[[str], None] | None = None,
    **opening: Unpack[Opening],
) -> RunReport:
    """Run ``bundle`` ``repeat`` times on one set of inputs.

    Args:
        bundle: The bundle's folder.
        feeds: Arrays by input name.
        random_seed: Make up the inputs that ``feeds`` leaves out.
        repeat: Runs to measure, after one that is not, where there are several.
        check: Compare with the uncut model in one session of the same provider and options.
        exact: Compare bit for bit, ONNX Runtime's optimisations off in both.
        output: Folder to write the results to, as ``.npy`` files.
        trace: File to write the last run to, for Perfetto, with ONNX Runtime's profile of every node.
        verbosity: 1 logs what partitions and copies of the last run cost, and kernels of the host in the first that is
            measured; 2 all kernels.
        progress: Called with the name of every stage as it begins.
        **opening: As in ``Session``.

    Raises:
        HetpartError: a bundle, feed or device is not what the plan needs, or a partition fails.
    """
    say = progress or _silent
    say("loading the partitions")
    before, start = resident_bytes(), perf_counter()
    nodes = trace is not None or verbosity > 0
    with _recording(bundle, nodes=nodes, optimize=not exact, progress=say, **opening) as session:
        loaded = _Loaded.since(start, before)
        fed = all_feeds(session.plan, feeds or {}, random_seed)
        say("running")
        measured = _measure(session, fed, repeat, check=check, whole=trace is not None)
        made, predicted, resident = session.last_copies(), session.predicted_seconds, resident_bytes()
        _tell(session, measured.nodes, trace)
    if check:
        say("running the uncut model")
    verdict = check_results(session, fed, measured.first, exact=exact) if check else None
    found = _report(bundle, session, measured.seconds, predicted, measured.last, made, verdict, output)
    return replace(found, load_seconds=loaded.seconds, load_bytes=loaded.nbytes, resident_bytes=resident)


@contextmanager
def _recording(bundle: Path, *, nodes: bool, **opening: Any) -> Generator[Session]:
    """A session that notes what its tasks and the nodes of each take, where that is asked for."""
    with TemporaryDirectory(prefix="hetpart-") as folder:
        options = profiling_options(Path(folder)) if nodes else None
        with Session(bundle, options, record=nodes, **opening) as session:
            yield session


def _tell(session: Session, nodes: dict[int, list[dict[str, Any]]], trace: Path | None) -> None:
    """What the last run did, where somebody wants to know."""
    nodes = nodes | session.end_node_profiles()  # what PyTorch ran tells of the last run
    log_run(session, nodes)
    if trace is None:
        return
    try:
        session.write_trace(trace, nodes)
    except OSError as error:
        raise HetpartError(
            f"cannot write the trace to {str(trace)!r}: {error.strerror}",
            hint="give --trace another file",
        ) from error


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What loading took."""

    seconds: float
    nbytes: int | None

    @classmethod
    def since(cls, start: float, before: int | None) -> _Loaded:
        now = resident_bytes()
        return cls(perf_counter() - start, None if now is None or before is None else now - before)


def _silent(stage: str) -> None:
    del stage


def all_feeds(plan: Plan, given: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    """What is ``given``, and random values for the rest where there is a ``seed``.

    Raises:
        InvalidFeedError: something given is no input, or something is left out and there is no seed.
    """
    unknown = sorted(set(given) - {spec.name for spec in plan.inputs})
    missing = [spec for spec in plan.inputs if spec.name not in given]
    if unknown:
        raise InvalidFeedError(
            f"the model has no input {', '.join(map(repr, unknown))}",
            hint=f"its inputs are {', '.join(repr(spec.name) for spec in plan.inputs) or 'none'}; "
            "one that has a default in the model file keeps it",
        )
    if missing and seed is None:
        raise InvalidFeedError(
            f"no value for the input{'s' if len(missing) > 1 else ''} {', '.join(repr(s.name) for s in missing)}",
            hint="give --input NAME=FILE.npy, or --random",
        )
    types = {spec.name: spec.dtype for spec in plan.inputs}
    read = {name: as_planned(array, types[name]) for name, array in given.items()}
    return random_feeds(missing, seed or 0, plan.granted, plan.examples) | read


@dataclass(frozen=True, slots=True)
class _Measured:
    """Runs on one set of inputs, where states go on from run to run."""

    first: list[Any]
    """Results of the first run, in the order of the outputs; states only where they are to be compared."""
    last: dict[str, Any]
    """All results of the last one, by name."""
    seconds: list[float]
    nodes: dict[int, list[dict[str, Any]]]
    """ONNX Runtime's events of nodes, by partition."""


def _measure(session: Session, feeds: Mapping[str, Any], repeat: int, *, check: bool, whole: bool) -> _Measured:
    """Run ``repeat`` times, after once that is not measured where that is several times.

    ONNX Runtime's profiles, which slow kernels down, end with the first of these unless the ``whole`` is asked for.
    """
    names, states, seconds = [spec.name for spec in session.plan.outputs], session.state(), list[float]()
    start = perf_counter()
    first = session.run(names if check or repeat == 1 else None, feeds)
    if repeat == 1:
        seconds.append(perf_counter() - start)
        return _Measured(first, dict(zip(names, first, strict=True)), seconds, {})
    fed = {name: value for name, value in feeds.items() if name not in states}
    made, nodes = list[Any](), dict[int, list[dict[str, Any]]]()
    for number in range(repeat):
        start = perf_counter()
        made = session.run(None, fed)
        seconds.append(perf_counter() - start)
        if not number and not whole:
            nodes = session.end_node_profiles()
    kept = {returned: states[given] for given, returned in session.plan.states.items()}
    results = dict(zip((name for name in names if name not in kept), made, strict=True)) | kept
    return _Measured(first, {name: results[name] for name in names}, seconds, nodes)


def check_results(session: Session, feeds: Mapping[str, Any], results: list[Any], *, exact: bool) -> CheckResult:
    """Compare ``results`` with the uncut model's on the same feeds, run on the provider the plan ran on.

    Kernels pack a constant weight and add in another order than with a streamed one: no comparison holds that to the
    bit.
    """
    names = [spec.name for spec in session.plan.outputs]
    uncut = run_uncut(session, feeds, exact=exact)
    return compare(
        names, results, uncut.results, exact=exact and not streamed_weights(session.plan), through=uncut.through
    )


def _report(  # noqa: PLR0913 - one record from its parts
    bundle: Path,
    session: Session,
    seconds: list[float],
    predicted: float,
    results: Mapping[str, Any],
    made: tuple[tuple[str, int], ...],
    verdict: CheckResult | None,
    output: Path | None,
) -> RunReport:
    counts, nbytes = Counter[str](), Counter[str]()
    for direction, size in made:
        counts[direction] += 1
        nbytes[direction] += size
    return RunReport(
        bundle=str(bundle),
        machine=session.plan.machine.name,
        runs=len(seconds),
        median_seconds=median(seconds),
        min_seconds=min(seconds),
        predicted_seconds=predicted,
        partitions=len(session.plan.partitions),
        copies=dict(counts),
        copied_bytes=dict(nbytes),
        outputs=tuple(_output_spec(name, value) for name, value in results.items()),
        emulated=session.emulate,
        check=verdict,
        files=() if output is None else write_arrays(results, output),
    )


def _output_spec(name: str, value: Any) -> OutputSpec:
    if isinstance(value, np.ndarray):
        is_number = value.size == 1 and value.dtype.kind in "fiub"
        return OutputSpec(name, value.dtype.name, value.shape, float(value.reshape(())) if is_number else None)
    return OutputSpec(name, type(value).__name__, None)
