# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""A training step that runs: what it keeps, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hetpart.errors import InvalidFeedError
from hetpart.pytorch.call import shared, tensor_of
from hetpart.training.capture import LOSS_SCALE
from hetpart.training.dropout import SEED
from hetpart.training.embedding import file_of
from hetpart.training.precision import scaling_of
from hetpart.training.program import PROGRESS

if TYPE_CHECKING:
    from os import PathLike

    from hetpart.compiler import PartitionedModel
    from hetpart.plan.model import Plan
    from hetpart.runtime.session import Session
    from hetpart.training.program import StepProgram

Contents = dict[str, torch.Tensor]
"""Tensors by the model's names, and ``optimizer/<state>/<parameter>``."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep:
    """A step that was placed, and the session that runs it."""

    planned: PartitionedModel
    session: Session
    program: StepProgram


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
        self.norm: float | None = None
        """Of all gradients of the last update, before it was clipped, where the step needs it."""
        self._program = planned.program
        self._schedule = schedule
        self._seed = seed
        rules = self._program.rules
        self._parts, self._part = rules.accumulate, 0
        self._scaling = scaling_of(rules.loss_scale, rules.precision)
        self._given = {state.name: state.given for state in self._program.states if not state.rounds}
        self._rounded = {state.given: state.rounds for state in self._program.states if state.rounds}
        self._wanted = [spec.name for spec in self.plan.outputs][: self._program.numbers]
        self._arguments = {spec.name for spec in self.plan.inputs}
        self._begin(contents)

    @property
    def plan(self) -> Plan:
        """Which device runs what."""
        return self.planned.plan

    @property
    def rate(self) -> float:
        """The factor of the schedule in the next update."""
        return 1.0 if self._schedule is None else float(self._schedule(self.steps + 1))

    def __call__(self, *batch: Any) -> torch.Tensor:
        """Make one update, or its part of one; returns the loss of ``batch``, of the parameters before it.

        Where gradients are not finite the update is left out.

        Raises:
            InvalidFeedError: the batch has not the shapes and types of the example.
        """
        if len(batch) != len(self._program.batch):
            raise InvalidFeedError(
                f"the batch has {len(batch)} parts, and the step was compiled for {len(self._program.batch)}",
                hint="call it as in example_batch",
            )
        feeds = {name: shared(part) for name, part in zip(self._program.batch, batch, strict=True) if name}
        scale, is_last = self.loss_scale, self._part == self._parts - 1
        factor = 1.0 / (self._parts * scale) if is_last else 0.0
        own = {
            PROGRESS: np.array([self.steps + 1, self.rate, factor, self._part]),
            SEED: np.array([self._seed, self.steps * self._parts + self._part + 1]),
            LOSS_SCALE: np.array(scale, np.float32),
        }
        feeds |= {name: value for name, value in own.items() if name in self._arguments}
        loss, *norms = self.session.run(self._wanted, feeds)
        self._part = 0 if is_last else self._part + 1
        if is_last:
            self._count([float(np.asarray(norm)) * factor for norm in norms])
        return tensor_of(np.asarray(loss))

    @property
    def loss_scale(self) -> float:
        """What multiplies the loss of the next step before its gradients are taken."""
        return 1.0 if self._scaling is None else self._scaling.scale

    def _count(self, norms: list[float]) -> None:
        """That an update was made, or left out."""
        self.norm = norms[0] if norms else None
        overflowed = self.norm is not None and not isfinite(self.norm)
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
        states = self.session.state()
        return {
            "step": self.steps,
            **self._progress(),
            "tensors": {name: tensor_of(states[given]) for name, given in self._given.items()},
        }

    def load_state_dict(self, content: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave.

        Raises:
            InvalidFeedError: tensors are missing, or unknown.
        """
        tensors: Mapping[str, torch.Tensor] = content["tensors"]
        if tensors.keys() != self._given.keys():
            odd = sorted(tensors.keys() ^ self._given.keys())
            raise InvalidFeedError(
                f"the content is of another step: {odd[0]!r} is in one of them alone, of {len(odd)} such",
                hint="compile the same model with the same optimizers",
            )
        self._load(tensors)
        self.steps = int(content["step"])
        self._part = int(content.get("part", 0))
        if self._scaling is not None and "scale" in content:
            self._scaling.scale, self._scaling.since = float(content["scale"]), int(content["since"])

    def save_checkpoint(self, folder: str | PathLike[str], *, keep_max: int | None = None) -> Path:
        """Write all that the step keeps as a checkpoint in ``folder``; returns the checkpoint's own folder.

        It is whole or not there; with ``keep_max`` the oldest go.
        """
        from hetpart.training.checkpoint import save

        states = self.session.state()
        tensors = {name: tensor_of(states.view(given)) for name, given in self._given.items()}
        return save(Path(folder), self.steps, tensors, self._progress(), keep_max=keep_max)

    def load_checkpoint(self, folder: str | PathLike[str], step: int | None = None) -> None:
        """Go on from a checkpoint in ``folder``: that of ``step``, or the newest.

        Raises:
            InvalidCheckpointError: there is no whole one.
            InvalidFeedError: it is of another step.
        """
        from hetpart.training.checkpoint import load

        found = load(Path(folder), step)
        tensors = {name: found.tensor(name) for name in found.names}
        self.load_state_dict({**found.metadata, "step": found.step, "tensors": tensors})

    def _progress(self) -> dict[str, Any]:
        """Numbers that a step goes on from, beside the number of the update."""
        scaling = self._scaling
        scale = {} if scaling is None else {"scale": scaling.scale, "since": scaling.since}
        return {"part": self._part, **scale} if self._parts > 1 else scale

    def _begin(self, contents: Mapping[str, torch.Tensor]) -> None:
        """Take over what is there before the first step: files themselves, copies of the rest."""
        states = self.session.state()
        for name, given in self._given.items():
            if name in contents and file_of(contents[name]) is not None and states.lies_on_host(given):
                states.adopt(given, contents[name].numpy())
            elif name in contents:
                states[given] = shared(contents[name])  # pyright: ignore[reportArgumentType]
        self._round(contents)

    def _load(self, contents: Mapping[str, torch.Tensor]) -> None:
        states = self.session.state()
        for name, given in self._given.items():
            states[given] = shared(contents[name])  # pyright: ignore[reportArgumentType]
        self._round(contents)

    def _round(self, contents: Mapping[str, torch.Tensor]) -> None:
        """Let parameters that are used in half precision be their masters rounded."""
        states = self.session.state()
        for given, name in self._rounded.items():
            states[given] = shared(contents[name].to(self._program.rules.half))  # pyright: ignore[reportArgumentType]

    def sync_to(self, model: torch.nn.Module) -> None:
        """Copy the parameters and buffers into ``model``, which was compiled or is like it."""
        states = self.session.state()
        held: dict[str, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        with torch.no_grad():
            for name, given in self._given.items():
                if name in held:
                    held[name].copy_(tensor_of(states[given]))

    def close(self) -> None:
        """Free the sessions and all that the step keeps."""
        self.session.close()
