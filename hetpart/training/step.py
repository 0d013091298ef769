# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A training step that runs: what it keeps, and how it is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hetpart.errors import ExecutionError, InvalidFeedError, InvalidOptionError
from hetpart.frontend.example import uncompiled
from hetpart.frontend.model import required
from hetpart.pytorch.call import shared, tensor_of
from hetpart.runtime.refusals import CHECK_HINT
from hetpart.training.fed import (
    counted,
    require_as_example,
    require_collected,
    require_content,
    require_unnamed,
    seeded,
)
from hetpart.training.kept import Kept
from hetpart.training.limits import rate_of
from hetpart.training.optimizers.protocol import STATE
from hetpart.training.precision import IN_FLOAT32, scaling_of
from hetpart.training.saved import write_step
from hetpart.training.synced import LIKE, write_into
from hetpart.training.writer import LOSS_SCALE, PROGRESS, SEED

if TYPE_CHECKING:
    from os import PathLike

    from hetpart.plan.model import Plan
    from hetpart.training.checkpoint import Part
    from hetpart.training.kept import Contents, PlannedStep

_NO_KERNEL = re.compile(r"not implemented for '(BFloat16|Half)'")
"""What PyTorch says of an operator that has no kernel of a type."""
_STOPPED = (
    "see what this batch holds, such as labels that are no class; updates that do not wait for it may have been made: "
    "go on from a checkpoint"
)


class Step:
    """Called with a batch, it returns the loss before the update that it makes.

    Parameters, buffers and what optimizers keep lie where the plan puts them, and are updated there.
    """

    def __init__(
        self,
        planned: PlannedStep,
        contents: Mapping[str, torch.Tensor],
        schedule: Callable[[int], float] | None,
        seed: int = 0,
    ) -> None:
        self.planned = planned.planned
        self.session = planned.session
        self.steps = 0
        """Updates that were made."""
        self.calls = 0
        """Calls that were made: so many as ``accumulate`` says make an update, or leave one out."""
        self.norm: float | None = None
        """Of all gradients of the last update, before it was clipped, where the step needs it."""
        self._program = planned.program
        self._schedule = schedule
        self._seed = seed
        rules = self._program.rules
        self._parts, self._part = rules.accumulate, 0
        self._scaling = scaling_of(rules.loss_scale, rules.precision)
        self._kept, self._rest = Kept(planned), planned.rest
        self._wanted = [spec.name for spec in self.plan.outputs][: self._program.numbers]
        self._arguments = {spec.name: spec for spec in self.plan.inputs}
        self._log = planned.log
        self._kept.begin(contents)

    @property
    def plan(self) -> Plan:
        """Which device runs what."""
        return self.planned.plan

    @property
    def rate(self) -> float:
        """The factor of the schedule in the next update."""
        return 1.0 if self._schedule is None else rate_of(self._schedule, self.steps + 1)

    def __call__(self, *batch: Any, **named: Any) -> torch.Tensor:
        """Make one update, or its part of one; returns the loss of ``batch``, of the parameters before it.

        Where the loss is scaled an update whose gradients are not finite is left out.

        Raises:
            InvalidFeedError: the batch has not the shapes and types of the example.
            ExecutionError: an op refuses what the batch holds, such as a label that is no class.
        """
        require_unnamed(named)
        feeds, factor = self._feeds(batch), self._factor
        loss, *norms = self._run(feeds)
        self.calls += 1
        self._part = (self._part + 1) % self._parts
        if not self._part:
            self._count([float(np.asarray(norm)) * factor for norm in norms])
        if self._log is not None:
            self._log.tell(self.session, updated=not self._part)
        return tensor_of(np.asarray(loss))

    def _run(self, feeds: Mapping[str, Any]) -> list[Any]:
        try:
            return self.session.run(self._wanted, feeds)
        except ExecutionError as error:
            stopped = IN_FLOAT32 if _NO_KERNEL.search(error.message) else _STOPPED
            hint = stopped if error.hint == CHECK_HINT else error.hint
            raise type(error)(error.message, hint=hint) from error.__cause__

    @property
    def _factor(self) -> float:
        """What multiplies the gradients of the next call; 0 where it makes no update."""
        return 1.0 / (self._parts * self._part_scale) if self._part == self._parts - 1 else 0.0

    @property
    def _part_scale(self) -> float:
        """What multiplies the loss of the next call, whatever its type."""
        return 1.0 if self._scaling is None else self._scaling.of_part(self._parts)

    def _feeds(self, batch: Sequence[Any]) -> dict[str, Any]:
        """What the session is given for the next call, beside states."""
        require_as_example(self._program, self._arguments, batch)
        for values in self._program.ranges:
            values.require(batch[values.place])
        own = {
            PROGRESS: np.array([self.steps + 1, self.rate, self._factor, self._part]),
            SEED: np.array([self._seed, self.calls + 1]),
            LOSS_SCALE: np.array(self._part_scale, np.float32),
        }
        feeds = {name: shared(part) for name, part in zip(self._program.batch, batch, strict=True) if name}
        return feeds | {name: value for name, value in own.items() if name in self._arguments}

    def save(self, path: str | PathLike[str], *batch: Any) -> list[Path]:
        """Write the step as an ONNX model, for ``hetpart partition``; returns the files.

        With a batch, ``<stem>.safetensors`` beside it holds what the next call with that batch would be given, states
        too: ``hetpart run BUNDLE --input FILE`` makes that call.

        Raises:
            InvalidOptionError: ``path`` is no name of an ONNX model.
            InvalidFeedError: the batch has other parts than the example.
            HetpartError: the disk refuses.
        """
        fed = self._feeds(batch) | self._kept.given() if batch else {}
        return write_step(required(self.planned.exported, "save"), Path(path), fed)

    @property
    def loss_scale(self) -> float:
        """What multiplies the loss of the next update before its gradients are taken."""
        return 1.0 if self._scaling is None else self._scaling.scale

    def _count(self, norms: list[float]) -> None:
        """That an update was made, or left out."""
        self.norm = norms[0] if norms else None
        overflowed = self._scaling is not None and not all(map(isfinite, norms))
        self.steps += not overflowed
        if self._scaling is not None:
            self._scaling.tell(overflowed=overflowed)

    def report(self, *, width: int = 100) -> str:
        """The placement report as text."""
        return self.planned.report(width=width)

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that the step keeps.

        ``{"step": 3, "tensors": {"fc.weight": …, "optimizer/exp_avg/fc.weight": …}}``
        """
        return {"step": self.steps, **self._progress(), "tensors": self._kept.copies()}

    def load_state_dict(self, content: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave. Between two updates ``accumulate`` may be another.

        Raises:
            InvalidFeedError: tensors are missing, unknown or of another form, it has too many parts of a batch, or
                counts nothing. Nothing has been taken over then.
        """
        require_content(content)
        steps, part = counted(content, "step"), counted(content, "part")
        calls = counted(content, "calls", steps * self._parts + part if "part" in content else steps)
        seed, scaling = seeded(content, self._seed), None if self._scaling is None else self._scaling.after(content)
        require_collected(content, part, self._parts, 1.0 if scaling is None else scaling.of_part(self._parts))
        self._kept.load(content["tensors"], collecting=part > 0)
        self.steps, self._part, self.calls, self._scaling = steps, part, calls, scaling
        self._seed = seed

    def save_checkpoint(
        self,
        folder: str | PathLike[str],
        *,
        keep_max: int | None = None,
        integrated: bool = True,
        part: Part | None = None,
    ) -> Path:
        """Write all that the step keeps, and what else the model has, as a checkpoint in ``folder``.

        Args:
            folder: Of all checkpoints.
            keep_max: How many there may be; the oldest go.
            integrated: One file of everything; ``False`` writes a part for every device that something lies on.
            part: This part of several of about as many bytes, which other processes that keep the same write.

        Returns:
            The folder of this checkpoint. It is whole or not there; ``checkpoint.merge`` makes one file of parts.

        Raises:
            InvalidOptionError: ``keep_max`` is no count from 1, ``part`` is none, or given beside ``integrated=False``.
        """
        from hetpart.training.checkpoint import Part, save

        given: Any = part
        if given is not None and not isinstance(given, Part):
            raise InvalidOptionError(f"part cannot be {given!r}", hint="it is Part(1, 4), the first of four")
        if not integrated and part is not None:
            raise InvalidOptionError(
                "part= says which part this process writes, and integrated=False that it writes one for every device",
                hint="leave out one of them",
            )
        shares = {part or Part(): self._kept.names if part is None else self._kept.share(part)}
        if not integrated:
            places = self._kept.by_device()
            shares = {Part(number, len(places)): names for number, names in enumerate(places, 1)}
        told = self._progress() | self._rest.told
        if part is not None or len(shares) > 1:  # a killed save may have left parts of this number of updates
            told["content"] = self._kept.digest(self._rest.frozen)
        homes = [
            save(folder, self.steps, self._stored(names, one), told, part=one, keep_max=keep_max)
            for one, names in shares.items()
        ]
        return homes[-1]

    def _stored(self, names: list[str], part: Part) -> Contents:
        """What one part of a checkpoint holds; what no step changes is in the first."""
        held = self._kept.views(names)
        held.update(self._rest.frozen if part.index == 1 else {})
        return held | {name: held[own] for name, own in self._rest.tied.items() if own in held}

    def load_checkpoint(self, folder: str | PathLike[str], step: int | None = None) -> None:
        """Go on from a checkpoint in ``folder``: that of ``step``, or the newest.

        Raises:
            InvalidCheckpointError: there is no whole one.
            InvalidOptionError: ``folder`` is no path.
            InvalidFeedError: it is of another step, or of a model whose frozen parts are others.
        """
        from hetpart.training.checkpoint import load

        found = load(folder, step)
        self._rest.require_same(found)
        names = [name for name in found.names if name not in self._rest.frozen and name not in self._rest.tied]
        tensors = {name: found.tensor(name) for name in names}
        self.load_state_dict({**found.metadata, "step": found.step, "tensors": tensors})

    def _progress(self) -> dict[str, Any]:
        """Numbers that a step goes on from, beside the number of the update."""
        scaling, found = self._scaling, dict[str, Any]()
        if self.calls != self.steps or self._parts > 1:
            found["calls"] = self.calls
        if self._parts > 1:
            found |= {"part": self._part} | ({"part_scale": self._part_scale} if self._part else {})
        if SEED in self._arguments:
            found["seed"] = self._seed
        return found if scaling is None else found | {"scale": scaling.scale, "since": scaling.since}

    def sync_to(self, model: torch.nn.Module) -> None:
        """Copy the parameters and buffers into ``model``, which was compiled or is like it.

        Raises:
            InvalidFeedError: it has others, or none that hold anything; nothing has been copied then.
        """
        if not isinstance(given := uncompiled(model), torch.nn.Module):
            raise InvalidFeedError(f"parameters cannot be copied into {given!r}", hint=LIKE)
        copies = {name: tensor for name, tensor in self._kept.copies().items() if not name.startswith(STATE)}
        copies |= self._rest.frozen
        write_into(given, copies | {name: copies[own] for name, own in self._rest.tied.items() if own in copies})

    def close(self) -> None:
        """Free the sessions and all that the step keeps."""
        self.session.close()
