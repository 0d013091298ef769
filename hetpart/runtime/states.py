# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""States: graph inputs whose new content is a graph output, kept on their device from run to run.

A state of known size has two blocks that take turns, or one where it is updated in place. One that grows is the
OrtValue that the last run made.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from ctypes import c_char
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.errors import ExecutionError, InvalidFeedError
from hetpart.runtime.current import Current
from hetpart.runtime.dtypes import numpy_dtype
from hetpart.runtime.feeds import checked_feeds
from hetpart.runtime.refusals import CLOSED_HINT
from hetpart.runtime.transport import HostMemory
from hetpart.runtime.values import allocate, fresh_array, tensor_bytes, to_array, to_value

if TYPE_CHECKING:
    from hetpart.runtime.frame import Frame, Place
    from hetpart.runtime.resident import State
    from hetpart.runtime.transport import Block, Memory
    from hetpart.runtime.turn import Turn

_PIECE = 64 * 2**20


class _Lent:
    """Memory of an array's owner."""

    __slots__ = ("address", "content")

    def __init__(self, content: np.ndarray[Any, Any]) -> None:
        self.content, self.address = content, content.ctypes.data


class States(MutableMapping[str, "np.ndarray[Any, Any]"]):
    """The states of a session by the names of their inputs: arrays on the host, copied in and out.

    Args:
        states: Those of the session.
        memories: By device.
        turn: Held while a run uses them.
    """

    def __init__(self, states: tuple[State, ...], memories: Mapping[str, Memory], turn: Turn) -> None:
        self._states = {state.given.name: state for state in states}
        self._memories = memories
        self._turn = turn
        self._blocks: dict[str, list[Block]] = {}
        self._grown: dict[str, Any] = {}
        """Contents of those that grow."""
        self._front = 0
        """Which of two blocks has the old content."""
        self._is_closed = False
        self._growing = [state for state in states if state.grows]
        self._sized = [state for state in states if not state.grows]
        self._is_read = False
        """Whether somebody relies on addresses."""
        self._turning = [state for state in self._sized if not state.in_place]
        self._returned = frozenset(state.returned.name for state in states)
        self._current = Current(self)
        self.reset()

    @property
    def current(self) -> tuple[dict[str, Any], int]:
        """The contents of those that grow, and which of two blocks is the old one."""
        return self._grown, self._front

    @current.setter
    def current(self, found: tuple[dict[str, Any], int]) -> None:
        self._grown, self._front = found

    @property
    def devices(self) -> dict[str, str]:
        """Where every state lies."""
        self._require_open()
        return {name: state.device for name, state in self._states.items()}

    @property
    def kept(self) -> frozenset[str]:
        """Those that have one size in every run."""
        return frozenset(state.given.name for state in self._sized)

    @property
    def grown(self) -> Mapping[str, Any]:
        """The contents of those that grow, as OrtValues."""
        return self._grown

    @property
    def nbytes(self) -> int:
        """Bytes that all of them take, both blocks of those that have two."""
        grown = (state for state in self._states.values() if state.grows)
        sizes = (tensor_bytes(s.given.dtype, self._grown[s.given.name].shape()) for s in grown)
        return sum(state.nbytes for state in self._states.values()) + sum(sizes)

    def reset(self) -> None:
        """Zeros everywhere; nothing in those that grow.

        Blocks that take turns are replaced; one that is updated in place keeps its address.

        Raises:
            ExecutionError: the session is closed.
        """
        self._require_open()
        for state in self._growing:
            empty = [size or 0 for size in state.given.shape or ()]
            self._grown[state.given.name] = allocate(state.given, empty, self._memories[state.device])
        for state in self._turning:
            self._blocks.pop(state.given.name, None)
        for state in self._sized:
            if state.given.name in self._blocks:
                self._write(state, np.zeros_like(fresh_array(state.given)))

    def _held(self, state: State) -> list[Block]:
        """Its blocks, which are made when they are asked for first: an array may have been handed over by then."""
        name = state.given.name
        if name not in self._blocks:
            self._blocks[name] = [self._zeros(state) for _ in range(1 if state.in_place else 2)]
        return self._blocks[name]

    def _zeros(self, state: State) -> Block:
        memory, nbytes = self._memories[state.device], state.given.nbytes
        block = memory.allocate(nbytes)
        if not isinstance(memory, HostMemory):
            zeros = np.zeros(min(nbytes, _PIECE), np.uint8)
            for start in range(0, nbytes, _PIECE):
                memory.copy_in(block.address + start, zeros.ctypes.data, min(_PIECE, nbytes - start))
        return block

    def lies_on_host(self, name: str) -> bool:
        """Whether a state is one block of the host's memory, which updates write to."""
        self._require_open()
        state = self._states[name]
        return state.in_place and not state.grows and type(self._memories[state.device]) is HostMemory

    def adopt(self, name: str, content: np.ndarray[Any, Any]) -> None:
        """Let ``content`` itself be a state that lies on the host, from the first run on: it is not copied.

        Raises:
            InvalidFeedError: the state lies elsewhere, or ``content`` is of another form.
            ExecutionError: a run has been made.
        """
        spec = self._states[name].given
        if not self.lies_on_host(name) or content.nbytes != spec.nbytes or not content.flags.c_contiguous:
            raise InvalidFeedError(
                f"the state {name!r} cannot be an array that is there",
                hint=f"it takes {spec.nbytes} contiguous bytes of host memory, where its update runs on the host",
            )
        if self._is_read:
            raise ExecutionError(f"the state {name!r} is in use", hint="hand over arrays before the first run")
        self._blocks[name] = [_Lent(content)]

    def view(self, name: str) -> np.ndarray[Any, Any]:
        """The content of a state, where it lies if that is the host's memory: good until the session is closed."""
        if not self.lies_on_host(name):
            return self[name]
        state = self._states[name]
        shape, like = [size or 0 for size in state.given.shape or ()], numpy_dtype(state.given.dtype)
        memory: Any = (c_char * state.given.nbytes).from_address(self._block(state).address)
        raw = np.frombuffer(memory, np.uint8)
        return raw if like is None else raw.view(like).reshape(shape)

    @property
    def fixed(self) -> dict[Place, int]:
        """Addresses of the states that are updated in place: they never change."""
        self._is_read = True
        one_block = ((state, self._held(state)[0]) for state in self._sized if state.in_place)
        return {place: block.address for state, block in one_block for place in (state.old, state.new)}

    def lend(self, frame: Frame) -> None:
        """Let a run find the old content, and know where the new belongs, of those that are not ``fixed``."""
        for state in self._growing:
            frame.arrays[state.old] = self._grown[state.given.name]
        for state in self._turning:
            blocks = self._held(state)
            frame.moving[state.old] = blocks[self._front].address
            frame.moving[state.new] = blocks[1 - self._front].address

    def renew(self, frame: Frame) -> None:
        """Take over what a run made, which has ended well: of all states or, where Ctrl-C comes meanwhile, of none."""
        grown = {state.given.name: frame.arrays[state.new] for state in self._growing}
        self._grown, self._front = grown, 1 - self._front

    def apart(self, feeds: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """``feeds`` of inputs that are no states, and of those that are."""
        if not self._states or not hasattr(feeds, "items") or self._states.keys().isdisjoint(feeds):
            return feeds, {}
        fed = {name: value for name, value in feeds.items() if name not in self._states}
        return fed, {name: value for name, value in feeds.items() if name in self._states}

    def checked(self, given: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """``given`` as arrays that the states can be.

        Raises:
            InvalidFeedError: a dtype or shape is not the planned one.
        """
        fed = checked_feeds([self._states[name].given for name in given], given)
        return {name: np.asarray(value, order="C") for name, value in fed.items()}

    def fed(self, given: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Let these be the contents of states, by name, for a run; where it or what follows fails, all is as before.

        Its turn is the caller's.

        Raises:
            InvalidFeedError: as ``checked``.
        """
        return self._refed(given) if given else self._current

    @contextmanager
    def _refed(self, given: Mapping[str, Any]) -> Generator[None]:
        arrays = self.checked(given)
        before = {name: self.read(name) for name in arrays}
        with self._current:
            try:
                self._put(arrays)
                yield
            except BaseException:
                self._current.back()
                self._put(before)
                raise

    def _put(self, contents: Mapping[str, np.ndarray[Any, Any]]) -> None:
        for name, array in contents.items():
            state = self._states[name]
            if state.grows:
                value = allocate(state.given, array.shape, self._memories[state.device])
                self._memories[state.device].copy_in(value.data_ptr(), array.ctypes.data, array.nbytes)
                self._grown[name] = value
            else:
                self._write(state, array)

    def _block(self, state: State) -> Block:
        """Where its content lies between two runs."""
        return self._held(state)[0 if state.in_place else self._front]

    def _write(self, state: State, array: np.ndarray[Any, Any]) -> None:
        block = self._block(state)
        self._memories[state.device].copy_in(block.address, array.ctypes.data, array.nbytes)

    def returned(self, names: Iterable[str] | None, *, boxed: bool) -> dict[str, Any]:
        """What the last run made of states, of the outputs in ``names``: arrays, or OrtValues where ``boxed``."""
        if self._returned.isdisjoint(names or ()):
            return {}
        asked = set(names or ())
        states = [state for state in self._states.values() if state.returned.name in asked]
        read = {state.returned.name: self.read(state.given.name) for state in states}
        return {s.returned.name: to_value(s.given, read[s.returned.name]) for s in states} if boxed else read

    def free(self) -> None:
        """Let go of everything: there are no states any more."""
        self._states, self._blocks, self._grown, self._is_closed = {}, {}, {}, True
        self._returned = frozenset[str]()

    def _require_open(self) -> None:
        if self._is_closed:
            raise ExecutionError("the session is closed, and its states with it", hint=CLOSED_HINT)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """A copy of a state's content. Its turn is the caller's."""
        state = self._states[name]
        if state.grows:
            return np.array(to_array(state.given, self._grown[name], self._memories[state.device]))
        array = fresh_array(state.given)
        self._memories[state.device].copy_out(array.ctypes.data, self._block(state).address, array.nbytes)
        return array

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        with self._turn.take():
            self._turn.settle()
            self._require_open()
            return self.read(name)

    def __setitem__(self, name: str, content: Any) -> None:
        self._require_open()
        if name not in self._states:
            raise InvalidFeedError(
                f"there is no state {name!r}", hint=f"the states are {', '.join(map(repr, self._states)) or 'none'}"
            )
        with self._turn.take():
            self._turn.settle()
            self._put(self.checked({name: content}))

    def __delitem__(self, name: str) -> None:
        raise InvalidFeedError(f"the state {name!r} cannot be removed", hint="session.reset_state() empties all")

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)
