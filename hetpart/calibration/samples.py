"""Everything that was sampled on a machine: kept beside its calibration, so that sampling again refines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from hetpart.calibration.families import TABLE_BYTES
from hetpart.calibration.probes import FLUSHED, SHORT, Key
from hetpart.calibration.readings import PRODUCT, Readings
from hetpart.calibration.starts import StartProbes, least_starts
from hetpart.calibration.taken import Taken, TakenByKernels, key_of
from hetpart.cost_model.calibrated import SCHEMA, VERSION, AcceleratorCalibration, Calibration, path_of, runtime_version
from hetpart.cost_model.detect import cache_bytes, this_processor
from hetpart.cost_model.kernel_calls import GROUPED, LONE, OVERWRITTEN, REORDER, STREAMED
from hetpart.cost_model.moving_calls import FAR_LOOKUPS, GATHER_SHARED
from hetpart.errors import HetpartError
from hetpart.files import write_whole
from hetpart.rates import LEAST_SECONDS, KernelRates, RateTable

SUFFIX = ".samples"
MOST_CACHE_BYTES = 50e6
"""Of a last cache that is larger other tenants have their parts: of a Xeon's 300 MB two cores of a virtual machine kept
67 MB of weights from run to run, and half of 100."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Of all probes at one number of threads. Probes go by ``named`` keys."""

    threads: int
    probes: Mapping[str, Taken]
    profiled: Mapping[str, TakenByKernels]
    partition_seconds: float
    """Of one more partition: its session, a copy, and being handed the run."""
    quiet_share: float
    """Of the time, for which no other work slowed the processor: the best of all calibrations."""

    def least(self, other: Samples) -> Samples:
        """What both took at best: a machine is disturbed in one calibration and quiet in the next."""
        return Samples(
            self.threads,
            {key: taken.least(other.probes[key]) for key, taken in self.probes.items()},
            {key: taken.least(other.profiled[key]) for key, taken in self.profiled.items()},
            min(self.partition_seconds, other.partition_seconds),
            max(self.quiet_share, other.quiet_share),
        )

    def rates(self, link_seconds: float, single: Samples | None = None) -> KernelRates:
        """What a kernel takes, by family and size.

        Args:
            link_seconds: Of a copy of a few bytes.
            single: Of one thread, at all sizes, where these are of more threads and of fewer sizes.
        """
        states = self._readings() if single is None else self._scaled(single)
        streamed, cool, warm, far = states.streamed, states.cool, states.warm, states.far
        tables = _whole_tables(cool, self.threads) | {
            STREAMED: streamed.streaming(cool),
            FAR_LOOKUPS: far.table(GATHER_SHARED),
        }
        memory = streamed.bandwidths(tables, TABLE_BYTES)
        starts = StartProbes(self.probes, self.profiled)
        return KernelRates(
            tables=tables,
            warm_tables=_whole_tables(warm, self.threads),
            # Of weights of twice what the last cache holds nothing is left there.
            weights_table=warm.keeping().up_to(2.0 * cache_bytes(3), memory["cold_bandwidth"]),
            session_seconds=cool.session,
            hop_seconds=max(0.0, self.partition_seconds - cool.session - link_seconds),
            launch_seconds=warm.launch,
            visit_seconds=cool.visit,
            operand_seconds=cool.operand,
            cool=starts.cool,
            cold=starts.cold,
            filled_seconds=starts.filled_seconds,
            constant_seconds=(single or self)._readings().warm.far_row,
            **memory,
            lone_bandwidth=(single or self)._readings().streamed.bandwidth,
            peak_flops=warm.peaks(),
            core_cache_bytes=cache_bytes(2),
            cache_bytes=min(cache_bytes(3) / 2, MOST_CACHE_BYTES),
            quiet_share=self.quiet_share,
            error=float(np.mean(cool.errors(tables))),
            cold_operand_seconds=starts.cold_operand_seconds,
            overhead_excess=max(cool.overhead_excess, warm.overhead_excess),
        )

    def _scaled(self, single: Samples) -> _States:
        """With the tables of one thread where these probes are fewer.

        In a profile of several threads each notes what it did, from code and counters that a cool kernel finds in no
        cache: how much faster profiled kernels are with them is read from the warm ones.
        """
        own, alone = self._readings(), single._readings()
        kernels = _gained(alone.cool, own.warm, alone.warm)
        pairs = ((own.streamed, alone.streamed), (own.cool, alone.cool), (own.warm, alone.warm), (own.far, alone.far))
        streamed, cool, warm, far = (replace(these, whole=those.tables()) for these, those in pairs)
        products = {PRODUCT: alone.streamed.streaming(alone.cool)}
        streamed = replace(streamed, whole={**(streamed.whole or {}), **products})
        return _States(
            replace(streamed, kernels=kernels, noting=0.0), replace(cool, kernels=kernels, noting=0.0), warm, far
        )

    def _readings(self) -> _States:
        cool, warm = ({key_of(name): getattr(of, state) for name, of in self.profiled.items()} for state in _PROFILED)
        noting = max(0.0, warm[SHORT]["Relu"] - LEAST_SECONDS)
        runs = {state: {key_of(name): getattr(of, state) for name, of in self.probes.items()} for state in _PROBED}
        runs["far"] = {key: seconds for key, seconds in runs["far"].items() if key[0] in FLUSHED or key == SHORT}
        return _States(**{state: Readings(runs[state], warm if state == "warm" else cool, noting) for state in _PROBED})


@dataclass(frozen=True, slots=True)
class _States:
    """What probes took, by where their operands lay."""

    streamed: Readings
    cool: Readings
    warm: Readings
    far: Readings


_PROBED = ("streamed", "cool", "warm", "far")
_PROFILED = ("cool", "warm")


def _gained(cool: Readings, warm: Readings, warm_alone: Readings) -> dict[Key, dict[str, float]]:
    """Seconds of profiled kernels in the cool state, from one thread's, by what more threads gain in the warm one."""
    return {
        key: {
            name: max(LEAST_SECONDS, taken - cool.noting)
            * max(LEAST_SECONDS, kernels[name] - warm.noting)
            / max(LEAST_SECONDS, warm_alone.kernels[key][name] - warm_alone.noting)
            for name, taken in cool.kernels[key].items()
            if name in kernels and name in warm_alone.kernels[key]
        }
        for key, kernels in warm.kernels.items()
    }


def _whole_tables(readings: Readings, threads: int) -> dict[str, RateTable]:
    """Of all families of one state. Groups of a convolution run side by side, each on one thread of those."""
    tables = readings.tables()
    single = readings.whole or tables
    grouped = {name: single[whole].times(1 / threads) for name, whole in GROUPED.items()}
    lone = {name: single[whole] for name, whole in LONE.items()}
    return tables | grouped | lone | {REORDER: readings.reordering(), OVERWRITTEN: readings.overwriting()}


@dataclass(frozen=True, slots=True)
class Sampled:
    """All that one calibration found, or several of them together."""

    version: int
    processor: str
    cores: int
    runtime: str
    threads: tuple[Samples, ...]
    """One thread first, at all sizes."""
    link_bandwidth: float
    link_seconds: float
    accelerator: AcceleratorCalibration | None = None

    def refining(self, earlier: Sampled) -> Sampled:
        """The least of both; an accelerator as it was measured last.

        Raises:
            HetpartError: they sampled other probes.
        """
        if self._probes() != earlier._probes():
            raise HetpartError(
                "the earlier samples are of other probes than this hetpart measures",
                hint="calibrate without --refine",
            )
        return replace(
            self,
            threads=tuple(one.least(other) for one, other in zip(self.threads, earlier.threads, strict=True)),
            link_bandwidth=max(self.link_bandwidth, earlier.link_bandwidth),
            link_seconds=min(self.link_seconds, earlier.link_seconds),
        )

    def _probes(self) -> object:
        return self.version, [(one.threads, set(one.probes), set(one.profiled)) for one in self.threads]

    def calibration(self) -> Calibration:
        """What planning uses."""
        least = least_starts([one.probes for one in self.threads])
        single, *others = (replace(one, probes={**one.probes, **least}) for one in self.threads)
        rates = {str(single.threads): single.rates(self.link_seconds)}
        rates |= {str(one.threads): one.rates(self.link_seconds, single) for one in others}
        return Calibration(
            SCHEMA, VERSION, self.processor, self.cores, self.runtime, rates, self.link_bandwidth, self.link_seconds,
            self.accelerator,
        )  # fmt: skip


def _path() -> Path:
    """The samples' file, beside the calibration's."""
    path = path_of(this_processor(), runtime_version())
    return path.with_name(path.stem + SUFFIX)


def load_samples() -> Sampled | None:
    """What earlier calibrations of this machine sampled; None where there was none.

    Raises:
        HetpartError: the file is there and cannot be read.
    """
    path = _path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sampled)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise HetpartError(
            f"the samples {path} cannot be read: {error}", hint="delete them, or calibrate without --refine"
        ) from error


def save_samples(sampled: Sampled) -> None:
    """Write ``sampled`` to its file, whole or not at all."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(sampled, order="deterministic"))
