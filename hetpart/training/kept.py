# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a step keeps from call to call, by the model's names, where the session has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import torch

from hetpart.devices import HOST
from hetpart.errors import InvalidFeedError
from hetpart.frontend.weights import has_content
from hetpart.pytorch.call import shared, tensor_of
from hetpart.training.embedding import file_of
from hetpart.training.norms import COLLECTED
from hetpart.training.optimizers.protocol import STATE, UNLISTED

if TYPE_CHECKING:
    from hetpart.partitioned import PartitionedModel
    from hetpart.runtime.session import Session
    from hetpart.training.checkpoint import Checkpoint, Part
    from hetpart.training.logged import CallLog
    from hetpart.training.program import StepProgram

Contents = dict[str, torch.Tensor]
"""Tensors by the model's names, and ``optimizer/<state>/<parameter>``."""
_SAME = "compile the same model with the same optimizers"
_SAME_MODEL = "compile the model that the checkpoint was made from"
_SAME_PARTS = (
    "compile with the accumulate= that it was made with, or save when all parts of a batch have made an update"
)
_SAMPLED = 1024
"""Of a table in a file this reads a page each; what has fewer than twice as many elements is read whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """What else the model's ``state_dict`` has."""

    frozen: Mapping[str, torch.Tensor]
    """What no step changes."""
    tied: Mapping[str, str]
    """Second names of parameters and buffers, with the first."""
    unlisted: tuple[str, ...] = ()
    """Buffers that a step keeps and a ``state_dict`` does not: those that are not persistent."""

    @property
    def told(self) -> dict[str, Any]:
        """What the metadata of a checkpoint say of it."""
        return {UNLISTED: [*self.unlisted]} if self.unlisted else {}

    @classmethod
    def of(cls, model: torch.nn.Module, kept: Iterable[str]) -> Rest:
        """Of a model, of which a step keeps the tensors called ``kept``."""
        known, first = set(kept), dict[int, str]()
        frozen, tied = dict[str, torch.Tensor](), dict[str, str]()
        listed = model.state_dict(keep_vars=True)
        for name, tensor in listed.items():
            own = first.setdefault(id(tensor), name)
            if own != name:
                tied[name] = own
            elif name not in known and isinstance(tensor, torch.Tensor):
                frozen[name] = tensor.detach()
        unlisted = (name for name in known if not name.startswith(STATE) and name not in listed)
        return cls(frozen, tied, tuple(sorted(unlisted)))

    def require_same(self, found: Checkpoint) -> None:
        """See that a checkpoint has the same of it, as far as it has any.

        Raises:
            InvalidFeedError: it has another.
        """
        for name, tensor in self.frozen.items():
            if name in found.files and not alike(found.tensor(name), tensor):
                raise InvalidFeedError(
                    f"{name!r}, which no step changes, is another in the checkpoint of step {found.step}",
                    hint=_SAME_MODEL,
                )
        for name, own in self.tied.items():
            if name in found.files and own in found.names and not alike(found.tensor(name), found.tensor(own)):
                raise InvalidFeedError(
                    f"{name!r} and {own!r} are one tensor here, and two in the checkpoint of step {found.step}",
                    hint=_SAME_MODEL,
                )

    def copied(self) -> Rest:
        """The same, whatever becomes of the model."""
        return replace(self, frozen={name: tensor.clone() for name, tensor in self.frozen.items()})


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep:
    """A step that was placed, and the session that runs it."""

    planned: PartitionedModel
    session: Session
    program: StepProgram
    rest: Rest
    log: CallLog | None = None
    """Of every call, where the session notes what its runs do."""


def _hint(name: str) -> str:
    return _SAME_PARTS if name.startswith(COLLECTED) else _SAME


def _sample(tensor: torch.Tensor) -> bytes:
    """Elements at even distances, an odd one lest they all be of one column."""
    flat = tensor.detach().reshape(-1)
    return flat[:: len(flat) // _SAMPLED | 1].cpu().contiguous().view(torch.uint8).numpy().tobytes()


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both hold the same; a NaN, which equals nothing, is the same as one of its bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one, other) or torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).cpu().contiguous().view(torch.uint8)


class Kept:
    """The states of a step. Those that are a parameter in half precision are not among them: their masters are."""

    def __init__(self, step: PlannedStep) -> None:
        self._states, plan = step.session.state(), step.planned.plan
        self._half = step.program.rules.half
        self._given = {state.name: state.given for state in step.program.states if not state.rounds}
        self._rounded = {state.given: state.rounds for state in step.program.states if state.rounds}
        specs = {spec.name: spec for spec in plan.inputs}
        self._specs = {name: specs[given] for name, given in self._given.items()}
        self._order = [device.device for device in plan.devices]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return list(self._given)

    def by_device(self) -> list[list[str]]:
        """The names of every device that has any, the host's first."""
        places = {name: self._order.index(self._states.devices[given]) for name, given in self._given.items()}
        used = sorted(set(places.values())) or [HOST]
        return [[name for name, place in places.items() if place == device] for device in used]

    def share(self, part: Part) -> list[str]:
        """The names of one part of several of about as many bytes: the largest first, each to the lightest part."""
        parts: list[list[str]] = [[] for _ in range(part.count)]
        held = [0] * part.count
        for name in sorted(self._specs, key=lambda name: (-self._specs[name].nbytes, name)):
            lightest = held.index(min(held))
            parts[lightest].append(name)
            held[lightest] += self._specs[name].nbytes
        return parts[part.index - 1]

    def digest(self, others: Mapping[str, torch.Tensor]) -> int:
        """Tells this content, and ``others``, from another run's: of a sample of every tensor, one after the other."""
        found = 0
        for name in sorted(self._given):
            found = crc32(_sample(*self.views([name]).values()), found)
        for name in sorted(others):
            found = crc32(_sample(others[name]), found)
        return found

    def copies(self) -> Contents:
        """All of them, on the host."""
        return {name: tensor_of(self._states[given]) for name, given in self._given.items()}

    def views(self, names: Iterable[str]) -> Contents:
        """These, where they lie if that is the host's memory, else copies there."""
        return {name: tensor_of(self._states.view(self._given[name])) for name in names}

    def given(self) -> Contents:
        """All states by the names of the arguments, those in half precision too: views, as ``views`` has them."""
        return {given: tensor_of(self._states.view(given)) for given in (*self._given.values(), *self._rounded)}

    def begin(self, contents: Mapping[str, torch.Tensor]) -> None:
        """Take over what is there before the first step: files themselves, copies of the rest; zeros without any."""
        for name, given in self._given.items():
            if name in contents and file_of(contents[name]) is not None and self._states.lies_on_host(given):
                self._states.adopt(given, contents[name].numpy())
            elif name in contents:
                self._states[given] = shared(contents[name])
        self._round(contents)

    def load(self, contents: Mapping[str, torch.Tensor], *, collecting: bool) -> None:
        """Go on from other contents.

        Args:
            contents: By name.
            collecting: Whether they hold parts of a batch that make no update yet. Where they hold none, what there is
                for such parts is of no consequence: the step may collect as many as it likes.

        Raises:
            InvalidFeedError: they are not those of this step; nothing has been taken over then.
        """
        wanted = {name: given for name, given in self._given.items() if collecting or not name.startswith(COLLECTED)}
        if not collecting:
            contents = {name: content for name, content in contents.items() if not name.startswith(COLLECTED)}
        self._require_same(contents, wanted)
        for name, given in wanted.items():
            self._states[given] = shared(contents[name])
        self._round(contents)

    def _require_same(self, contents: Mapping[str, torch.Tensor], wanted: Mapping[str, str]) -> None:
        odd = sorted(contents.keys() ^ wanted.keys())
        if odd:
            raise InvalidFeedError(
                f"the content is of another step: {odd[0]!r} is in one of them alone, of {len(odd)} such",
                hint=_hint(odd[0]),
            )
        for name, spec in self._specs.items():
            if name not in wanted:
                continue
            content: Any = contents[name]
            if isinstance(content, torch.Tensor) and content.layout != torch.strided:
                raise InvalidFeedError(
                    f"{name!r} of the content is {content.layout}, which a step does not keep",
                    hint="give to_dense() of it",
                )
            if isinstance(content, torch.Tensor) and not has_content(content):
                raise InvalidFeedError(
                    f"{name!r} of the content has a form and no content", hint="load it on a device that has memory"
                )
            found = shared(contents[name])
            form = str(found.dtype).removeprefix("torch."), tuple(found.shape)
            if form != (spec.dtype, spec.shape):
                raise InvalidFeedError(
                    f"the content is of another step: {name!r} is {form[0]}{list(form[1])}, and here "
                    f"{spec.dtype}{list(spec.shape or ())}",
                    hint=_hint(name),
                )

    def _round(self, contents: Mapping[str, torch.Tensor]) -> None:
        """Let parameters that are used in half precision be their masters rounded."""
        for given, name in self._rounded.items():
            self._states[given] = shared(contents[name].to(self._half))
