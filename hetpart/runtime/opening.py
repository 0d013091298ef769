# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
"""How a session is asked for: its options, which check themselves, and what follows from them for a bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING

from hetpart.config import parse_link
from hetpart.errors import InvalidOptionError
from hetpart.kinds import require_kinds
from hetpart.plan.bundle import Bundle, open_bundle
from hetpart.runtime.ahead import Ahead, ask_ahead
from hetpart.runtime.demands import checked_providers, require_devices
from hetpart.runtime.frame import Layout
from hetpart.runtime.loading import MODES
from hetpart.runtime.options import asked_threads
from hetpart.runtime.providers import ProviderOption
from hetpart.runtime.record import RunRecord
from hetpart.runtime.resident import without_copies
from hetpart.runtime.sessions import SessionSettings
from hetpart.runtime.streaming import StreamedWeights

if TYPE_CHECKING:
    import onnxruntime

    from hetpart.runtime.resident import State

_VERIFIED = ("sampled", "full")
"""How much of the weight files is hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The options of ``Session`` that are hetpart's own.

    Raises:
        InvalidOptionError: there is no such mode or way to verify, an option is of the wrong kind, a number of threads
            below 0, or lanes or a link are asked for where one session runs the plan.
    """

    mode: str
    verify: str
    emulate: bool
    optimize: bool
    threads: int | None
    overlap: bool | None
    emulate_link: str | float | None
    provider: ProviderOption
    cuda_graph: bool
    progress: Callable[[str], None] | None
    record: bool | RunRecord

    def __post_init__(self) -> None:
        for option, given, known in (("mode", self.mode, MODES), ("verify", self.verify, _VERIFIED)):
            if given not in known:
                listed = ", ".join(map(repr, known))
                raise InvalidOptionError(f"{option}={given!r} is none", hint=f"it is one of {listed}")
        others = [field.name for field in fields(self) if field.name not in ("mode", "verify")]
        require_kinds({name: getattr(self, name) for name in others})
        if self.threads is not None and self.threads < 0:
            raise InvalidOptionError(
                f"threads={self.threads} is none", hint="give a number from 0, which leaves it to the machine"
            )
        if self.native:
            self._require_no_lanes()

    def _require_no_lanes(self) -> None:
        """One session has neither lanes nor links."""
        lanes = {"overlap": self.overlap, "emulate_link": self.emulate_link}
        option = next((name for name, given in lanes.items() if given not in (None, False)), None)
        if option is not None:
            raise InvalidOptionError(
                f"{option} is asked for, and with mode={self.mode!r} one session runs the plan, without lanes or links",
                hint=f"leave out {option}, or the mode (--native)",
            )

    @property
    def native(self) -> bool:
        """Whether one ONNX Runtime session runs all of the plan."""
        return self.mode != MODES[0]

    def bundle(self, given: object) -> Bundle:
        """The bundle, opened, whose devices answer.

        Raises:
            InvalidOptionError: that is no bundle.
            HetpartError: it cannot be opened, or a device does not answer.
        """
        found = given if isinstance(given, Bundle) else open_bundle(_path(given), verify_full=self.verify == "full")
        every = self.mode == "own-budget"
        require_devices(found.plan, emulate=self.emulate, cuda_graph=self.cuda_graph, every=every)
        return found

    def settings(self, bundle: Bundle, given: onnxruntime.SessionOptions | None) -> tuple[SessionSettings, Ahead]:
        """How the sessions of ``bundle`` are made, and which CUDA devices are asked for work ahead.

        Raises:
            InvalidOptionError: a provider is none of a device of the plan.
        """
        threads = asked_threads(bundle.plan, given) if self.threads is None else self.threads
        alone = self.native or len(bundle.plan.partitions) < 2
        chosen = checked_providers(bundle.plan, self.provider, emulate=self.emulate)
        ahead = ask_ahead(
            bundle,
            {
                "accelerators are emulated": self.emulate,
                "one session runs it": self.native,
                "overlap is off": self.overlap is False,
                "runs are recorded": bool(self.record),
                "another provider is asked for": bool(chosen),
                "CUDA graphs are asked for": self.cuda_graph,
            },
        )
        made = SessionSettings(
            self.emulate, self.optimize, threads, alone, given, chosen, self.cuda_graph, ahead.streams
        )
        return made, ahead

    def layout(self, bundle: Bundle, states: tuple[State, ...], ahead: Ahead) -> Layout:
        """Where the values of its runs lie."""
        return Layout.of(
            without_copies(bundle.plan, states),
            emulate=self.emulate,
            link=parse_link(self.emulate_link, emulate=self.emulate),
            states=states,
            streamed=StreamedWeights.of(bundle),
            own=ahead.memories,
        )


def _path(bundle: object) -> Path:
    if not isinstance(bundle, str | PathLike) or not str(bundle):
        raise InvalidOptionError(
            f"a session opens a bundle, not {shortened(bundle)}",
            hint="give the path of one, or the bundle() of what hetpart.partition gives",
        )
    return Path(bundle)
