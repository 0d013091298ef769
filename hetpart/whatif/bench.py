# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Plans of one model, measured in turns: ours, the simple rules', and ONNX Runtime's own ways."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from hetpart.compiler import partition
from hetpart.devices import Provider
from hetpart.errors import ExecutionError, HetpartError, InfeasibleError, InvalidFeedError, MismatchError
from hetpart.partitioned import PartitionedModel
from hetpart.plan.bench import BenchReport, Contender
from hetpart.runtime.check import all_feeds
from hetpart.runtime.compare import compare
from hetpart.runtime.footprint import resident_bytes
from hetpart.runtime.held import ValueWatch
from hetpart.runtime.profiles import profiling_options
from hetpart.runtime.session import Session

if TYPE_CHECKING:
    from os import PathLike

    from hetpart.plan.model import Plan

OURS, OWN_BUDGET = "hetpart", "ONNX Runtime's own budget"
Mode = Literal["partitions", "native", "own-budget"]
_RULES = ("all-cpu", "all-accelerator")
_CANDIDATES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((rule, {"placement": rule}) for rule in _RULES),
    ("overlap", {"overlap": True}),
    ("at most 2 partitions", {"max_partitions": 2}),
    ("at most 4 partitions", {"max_partitions": 4}),
    ("at most 8 partitions", {"max_partitions": 8}),
    ("min gain 5 %", {"min_gain": "5%"}),
    ("fill-in-order", {"placement": "fill-in-order"}),
    ("density", {"placement": "density"}),
)
"""Other plans that ``autotune`` considers."""
_SEED, _WARM_UP = 0, 2
_NAMED = 8
_COUNTED_RUNS = 3
"""The first asks ONNX Runtime's arena for buffer after buffer; later ones take a block that may be larger."""
_MOST_SECONDS = 20.0
"""Rounds end after as long, once there are three."""


@dataclass(slots=True, eq=False)
class _Runner:
    """A session with its times."""

    name: str
    session: Session
    plan: Plan
    predicts: bool
    load_bytes: int | None
    seconds: list[float]
    results: list[Any]

    def contender(self) -> Contender:
        plan, times = self.plan, self.seconds
        overlapped = plan.timeline.seconds if plan.timeline and self.session.overlaps else plan.prediction.seconds
        return Contender(
            self.name,
            median(times),
            quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0],
            min(times),
            overlapped if self.predicts else None,
            len(plan.partitions),
            len(plan.transfers),
            self.load_bytes,
            {use.device: use.peak_bytes for use in plan.devices},
        )


def bench(  # noqa: PLR0913 - the options of `hetpart bench`
    model: str | PathLike[str],
    *,
    feeds: Mapping[str, Any] | None = None,
    emulate: bool = False,
    rounds: int = 20,
    autotune: int = 0,
    output: str | PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> BenchReport:
    """Measure how ``model`` runs when it is placed by us and by others, on one set of inputs, in turns.

    Args:
        model: An ``.onnx`` file.
        feeds: Arrays by input name; the rest is random.
        emulate: Run accelerator partitions on the CPU.
        rounds: Runs of each contender, fewer where they take long.
        autotune: Measure the best so many plans instead, by their predictions, and keep the fastest.
        output: Where to write the bundle of the fastest plan.
        progress: Called with the name of every stage as it begins.
        options: Those of ``hetpart.partition``.

    Raises:
        HetpartError: our own plan cannot be made or run.
        MismatchError: contenders do not give the same results.
    """
    say = progress or _silent
    left_out: dict[str, str] = {}
    plans = dict(_plans(Path(model), options, autotune, left_out, say))
    with ExitStack() as stack:
        how = How(emulate, not autotune, say, feeds or {})
        runners = list(_runners(stack, plans, left_out, how))
        _measure(runners, how.fed(runners[0].plan), rounds, say)
        found = sorted((runner.contender() for runner in runners), key=lambda one: one.median_seconds)
        made = len(runners[0].seconds)
    del runners
    gc.collect()  # they had weights mapped, and what is mapped is counted
    found = [_with_memory(one, plans.get(one.name), how) for one in found]
    ours = plans[OURS].plan
    report = BenchReport(ours.model.name, ours.machine.name, emulate, made, tuple(found), left_out)
    if output is None:
        return report
    kept = next(one.name for one in found if one.name in plans)
    return replace(report, kept=kept, bundle=str(plans[kept].save(output)))


def _silent(stage: str) -> None:
    del stage


def _plans(
    model: Path, options: Mapping[str, Any], autotune: int, left_out: dict[str, str], say: Callable[[str], None]
) -> Iterator[tuple[str, PartitionedModel]]:
    """Ours, then those of others by name."""
    say("making the plan")
    ours = partition(model, **options)
    yield OURS, ours
    others = _CANDIDATES if autotune else tuple((rule, {"placement": rule}) for rule in _RULES)
    found: list[tuple[str, PartitionedModel]] = []
    for name, changes in others:
        say(f"making the plan of {name}")
        try:
            found.append((name, partition(model, **{**options, **changes})))
        except InfeasibleError as error:
            left_out[name] = error.message
    yield from _best(ours, found, autotune - 1) if autotune else found


def _best(
    ours: PartitionedModel, found: list[tuple[str, PartitionedModel]], most: int
) -> list[tuple[str, PartitionedModel]]:
    """The plans that are predicted to be fastest, of those that differ from ours and from each other."""
    known = {_work(ours.plan)}
    kept: list[tuple[str, PartitionedModel]] = []
    for name, candidate in sorted(found, key=lambda item: _promised(item[1].plan)):
        if _work(candidate.plan) not in known and len(kept) < most:
            known.add(_work(candidate.plan))
            kept.append((name, candidate))
    return kept


def _promised(plan: Plan) -> float:
    """Seconds of a run as a session makes it unless it is told otherwise."""
    return plan.timeline.seconds if plan.timeline and plan.timeline.pays else plan.prediction.seconds


def _work(plan: Plan) -> tuple[Any, ...]:
    """What a run of ``plan`` does."""
    return tuple((part.device, part.ops) for part in plan.partitions), plan.transfers


@dataclass(frozen=True, slots=True)
class How:
    """How contenders are loaded."""

    emulate: bool
    native: bool
    """Whether ONNX Runtime gets our plan too, to run in one session."""
    say: Callable[[str], None]
    feeds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is not made up, by input name."""

    def fed(self, plan: Plan) -> dict[str, Any]:
        """What every run is given."""
        return all_feeds(plan, self.feeds, _SEED)


def _runners(
    stack: ExitStack, plans: Mapping[str, PartitionedModel], left_out: dict[str, str], how: How
) -> Iterator[_Runner]:
    """Every contender that can be loaded; each has run once."""
    wanted: list[tuple[str, PartitionedModel, Mode]] = []
    for name, planned in plans.items():
        wanted.append((name, planned, "partitions"))
    for name, mode in native_ways(plans[OURS].plan, how, left_out):
        wanted.append((name, plans[OURS], mode))
    how.say("loading ONNX Runtime")
    with Session(plans[OURS].bundle(), emulate=how.emulate) as first:  # what a process takes once is no contender's
        _require_legal(first, how)
    for name, planned, mode in wanted:
        how.say(f"loading {name}")
        before = resident_bytes()
        try:
            session = Session(planned.bundle(), emulate=how.emulate, mode=mode)
        except HetpartError as error:
            if name == OURS:
                raise
            left_out[name] = error.message
            continue
        stack.enter_context(session)
        outputs = [spec.name for spec in planned.plan.outputs]
        results = session.run(outputs, how.fed(planned.plan))
        after = resident_bytes()
        grown = None if before is None or after is None else after - before
        yield _Runner(name, session, planned.plan, mode == "partitions", grown, [], results)


def _require_legal(session: Session, how: How) -> None:
    """Run once: random values are refused by some models, as offsets of bags are."""
    made_up = [spec.name for spec in session.plan.inputs if spec.name not in how.feeds]
    feeds = how.fed(session.plan)
    try:
        session.run(None, feeds)
    except (ExecutionError, InvalidFeedError) as error:
        if not made_up:
            raise
        names = ", ".join(map(repr, made_up[:_NAMED])) + (", …" if len(made_up) > _NAMED else "")
        raise type(error)(
            f"{error.message}; {len(made_up)} of its inputs were made up at random: {names}",
            hint="give those that are not any numbers with --input: a step's are in the FILE.safetensors that "
            "step.save(path, *batch) writes",
        ) from error


def native_ways(plan: Plan, how: How, left_out: dict[str, str]) -> list[tuple[str, Mode]]:
    """ONNX Runtime's own ways to run the model in one session; ``left_out`` says why one is none here."""
    if not how.native:
        return []
    ways: list[tuple[str, Mode]] = [("one annotated session", "native")]
    if how.emulate or not any(use.provider == Provider.CUDA for use in plan.devices):
        left_out[OWN_BUDGET] = "its partitioner counts memory of the CUDA provider alone"
    else:
        ways.append((OWN_BUDGET, "own-budget"))
    return ways


def _measure(runners: list[_Runner], feeds: Mapping[str, Any], rounds: int, say: Callable[[str], None]) -> None:
    names = [spec.name for spec in runners[0].plan.outputs]
    fed = {runner.name: _without_kept(feeds, runner.session) for runner in runners}
    for runner in runners:
        _require_same(runners[0], runner, names)
        for _ in range(_WARM_UP):
            runner.session.run(None, fed[runner.name])
    begin = perf_counter()
    for turn in range(rounds):
        say(f"measuring: round {turn + 1} of {rounds}")
        for runner in runners[turn % len(runners) :] + runners[: turn % len(runners)]:
            start = perf_counter()
            runner.session.run(None, fed[runner.name])
            runner.seconds.append(perf_counter() - start)
        if turn >= 2 and perf_counter() - begin > _MOST_SECONDS:
            return


def _without_kept(feeds: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """What a run is fed whose states stay where they are: one that grows is fed, or every run would be a longer one."""
    kept = session.state().kept
    return {name: value for name, value in feeds.items() if name not in kept}


def _with_memory(contender: Contender, planned: PartitionedModel | None, how: How) -> Contender:
    """``contender`` with what its runs hold on every device, where a plan's partitions are what runs."""
    if planned is None:
        return contender
    how.say(f"counting the memory of {contender.name}")
    bundle, watch, feeds = planned.bundle(), ValueWatch(), how.fed(planned.plan)
    with TemporaryDirectory(prefix="hetpart-") as folder:
        options = profiling_options(Path(folder))
        with Session(bundle, options, emulate=how.emulate, record=watch) as session:
            for _ in range(_COUNTED_RUNS):
                session.run(None, feeds)
            held = session.held_memory(bundle, watch)
    return replace(contender, measured_peak_bytes={device: own.peak for device, own in held.items()}, held=held)


def _require_same(first: _Runner, other: _Runner, names: list[str]) -> None:
    verdict = compare(names, other.results, first.results, exact=False)
    if not verdict.equal:
        raise MismatchError(
            f"{other.name} gives other results than {first.name}: {verdict.worst_output!r} differs by "
            f"{verdict.largest_difference:g}",
            hint="`hetpart run --check` tells which of them is the uncut model's",
        )
