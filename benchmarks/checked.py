"""Models of the zoo, run in pieces and compared with what one ONNX Runtime session makes of the whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hetpart
from benchmarks import zoo
from hetpart.plan.bundle import Bundle
from hetpart.plan.cut_models import cut_models
from hetpart.runtime.check import run_uncut
from hetpart.runtime.compare import compare

if TYPE_CHECKING:
    from hetpart import PartitionedModel, Session


FEED_SEED = 2
"""Of the zoo's random feeds: with this one, every Loop turns at least once."""


@dataclass(slots=True, eq=False)
class Checked:
    """A model of the zoo, its feeds, and the uncut model's results, which are computed once."""

    name: str
    path: Path
    feeds: dict[str, Any]
    uncut: dict[bool, list[Any]] = field(default_factory=dict[bool, list[Any]])
    """Results by whether ONNX Runtime's optimisations are off."""

    @classmethod
    def of(cls, name: str, folder: Path) -> Checked:
        """The model called ``name``, built in ``folder`` where it is absent."""
        path = zoo.prepare(name, folder)
        return cls(name, path, dict(zoo.random_feeds(name, path, FEED_SEED)))

    def partition(self, **options: Any) -> PartitionedModel:
        """``hetpart.partition`` with the model's dimensions bound."""
        return hetpart.partition(self.path, shape=zoo.ZOO[self.name].shape, **options)

    def run(self, model: PartitionedModel, *, exact: bool, overlap: bool | None = None) -> dict[str, Any]:
        """How the results of the emulated plan compare: bit for bit and unoptimised, or within the tolerance."""
        models = tuple(proto.SerializeToString() for proto in cut_models(model.imported.proto, model.plan))
        bundle = Bundle(model.plan, models, model.imported.folder)
        with hetpart.Session(bundle, emulate=True, optimize=not exact, overlap=overlap) as session:
            results = session.run(None, self.feeds)
            copies = Counter(direction for direction, _ in session.last_copies())
            nbytes = sum(nbytes for _, nbytes in session.last_copies())
            verdict = compare(
                [spec.name for spec in model.plan.outputs], results, self._uncut(session, exact), exact=exact
            )
        return {
            "equal": verdict.equal,
            "largest_difference": verdict.largest_difference,
            "tolerance": verdict.tolerance,
            "copies": dict(copies),
            "copied_bytes": nbytes,
        }

    def _uncut(self, session: Session, exact: bool) -> list[Any]:
        if exact not in self.uncut:
            self.uncut[exact] = run_uncut(session, self.feeds, exact=exact).results
        return self.uncut[exact]


@dataclass(slots=True)
class Journal:
    """Rows by key, written to a file as they are found, so that an interrupted run goes on where it stood."""

    file: Path | None
    rows: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, file: Path | None) -> Journal:
        """What ``file`` holds already; without a file nothing is kept."""
        lines = file.read_text().splitlines() if file and file.exists() else []
        return cls(file, dict(json.loads(line) for line in lines))

    def row(self, key: str, find: Callable[[], Any]) -> Any:
        """The row of ``key``, found now unless it is known."""
        if key not in self.rows:
            self.rows[key] = find()
            if self.file:
                with self.file.open("a") as out:
                    out.write(json.dumps([key, self.rows[key]]) + "\n")
        return self.rows[key]


def chosen_models(names: list[str], *, tiny: bool) -> list[str]:
    """The models asked for, by default those of tests where ``tiny``, else the full ones."""
    return names or [name for name in zoo.ZOO if name.endswith("-tiny") == tiny]
