"""Bindings of values whose size only a run tells, beside ONNX Runtime's own on the uncut model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart.errors import ExecutionError, InvalidFeedError
from tests.runtime.models import assert_same, cut, model, plain

OPEN = model("g (float[n] x) => (float[m] z, float[n] y) { [a] y = Neg(x) [b] i = NonZero(y) [c] z = Cast<to=1>(i) }")
OPEN.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "k"  # NonZero's: a row for its one axis
SIZES = [3, 0, 7]


def _opened(seed: int, **io: str) -> hetpart.Session:
    made = hetpart.partition(OPEN, hardware="emulated", placement=f"random:{seed}", io=io, shape="n=?")
    return made.session(emulate=True)


def _fed(size: int) -> np.ndarray[Any, Any]:
    return np.arange(1, size + 1, dtype=np.float32)


def _by_address(binding: Any, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    binding.bind_input("x", "cpu", 0, np.float32, list(x.shape), x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, list(y.shape), y.ctypes.data)
    binding.bind_output("z", "cpu", 0, np.float32, list(z.shape), z.ctypes.data)


def _by_value(binding: Any, *arrays: np.ndarray) -> None:
    x, y, z = map(onnxruntime.OrtValue.ortvalue_from_numpy, arrays)
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    binding.bind_ortvalue_output("z", z)


@pytest.mark.parametrize("bind", [_by_address, _by_value])
@pytest.mark.parametrize("seed", range(4))
def test_buffers_of_the_size_that_a_run_makes_are_filled(bind: Any, seed: int) -> None:
    uncut = plain(OPEN)
    with _opened(seed) as session:
        ours, theirs = session.io_binding(), uncut.io_binding()
        for size in SIZES:
            given = _fed(size)
            expected = uncut.run(None, {"x": given})
            filled = []
            for one, binding in ((session, ours), (uncut, theirs)):
                y, z = np.zeros(size, np.float32), np.zeros((1, size), np.float32)
                bind(binding, given, y, z)
                one.run_with_iobinding(binding)
                filled.append([y, z])
                assert_same(binding.copy_outputs_to_cpu(), expected[::-1])
            assert_same(*filled)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_that_makes_another_size_than_the_buffers_says_so(seed: int) -> None:
    """As ONNX Runtime does, and the buffer is as it was."""
    x, y, z = _fed(3), np.zeros(3, np.float32), np.zeros((1, 2), np.float32)
    uncut = plain(OPEN)
    with _opened(seed) as session:
        for one, errors in ((uncut, RuntimeError), (session, (InvalidFeedError, ExecutionError))):
            binding = one.io_binding()
            _by_address(binding, x, y, z)
            with pytest.raises(errors, match=r"1,\s*3"):
                one.run_with_iobinding(binding)
            assert not z.any()
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        assert_same([y, *binding.copy_outputs_to_cpu()[1:]], uncut.run(None, {"x": x})[::-1])


def test_what_no_run_could_fill_or_read_is_refused() -> None:
    with _opened(0, z="cuda") as session:
        binding = session.io_binding()
        with pytest.raises(InvalidFeedError, match=r"'x' is bound to .*\[2, 2\], planned was 'x' float32\[\?\]"):
            binding.bind_input("x", "cpu", 0, np.float32, [2, 2], _fed(4).ctypes.data)
        with pytest.raises(InvalidFeedError, match="'x', whose size only a run tells, is bound at an address of cuda"):
            binding.bind_input("x", "cuda", 0, np.float32, [2], _fed(2).ctypes.data)
        with pytest.raises(InvalidFeedError, match="'z', whose size only a run tells, is bound to a buffer on cuda:0"):
            binding.bind_output("z", "cuda", 0, np.float32, [1, 2], _fed(2).ctypes.data)


FIXED = model("fixed (float[4] x) => (float[4] z) { [a] y = Relu(x) [b] z = Neg(y) }")
WRONG: dict[str, dict[str, Any]] = {
    "device": {"device_type": "tpu"},
    "no device": {"device_type": 3},
    "number": {"device_id": "a"},
    "type": {"element_type": "junk"},
    "no type": {"element_type": [3]},
    "no shape": {"shape": 4},
    "shape": {"shape": [-4]},
    "no address": {"buffer_ptr": "here"},
    "null": {"buffer_ptr": 0},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("accelerated", [("b",), ("a", "b")], ids=str)
def test_what_is_no_buffer_is_refused_when_it_is_bound(accelerated: tuple[str, ...], wrong: str) -> None:
    x, z = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    right = {"device_type": "cpu", "device_id": 0, "element_type": np.float32, "shape": [4]}
    with cut(FIXED, accelerated) as session:
        binding = session.io_binding()
        for bind, array in ((binding.bind_input, x), (binding.bind_output, z)):
            asked: dict[str, Any] = {**right, "buffer_ptr": array.ctypes.data}
            with pytest.raises(InvalidFeedError) as refused:
                bind("x" if array is x else "z", **asked | WRONG[wrong])
            assert refused.value.hint
            bind("x" if array is x else "z", **asked)
        session.run_with_iobinding(binding)
    np.testing.assert_array_equal(z, -x)


def test_what_is_bound_goes_by_the_names_of_the_model() -> None:
    x = np.zeros(4, np.float32)
    with cut(FIXED, ("b",)) as session:
        binding = session.io_binding()
        wrong: list[Any] = [3, [], None]
        for name in wrong:
            with pytest.raises(InvalidFeedError, match="the model has no output"):
                binding.bind_output(name)
        with pytest.raises(InvalidFeedError, match="no input None"):
            binding.bind_input(wrong[2], "cpu", 0, np.float32, [4], x.ctypes.data)
        with pytest.raises(InvalidFeedError, match="to the address None"):
            binding.bind_input("x", "cpu", 0, np.float32, [4], wrong[2])
        for value in (x, None):
            with pytest.raises(InvalidFeedError, match="no OrtValue"):
                binding.bind_ortvalue_output("z", value)


ADDRESS = np.ones(2, np.float32).ctypes.data
REFUSED: dict[str, Callable[[Any], object]] = {
    "no such input": lambda binding: binding.bind_cpu_input("q", np.ones(2, np.float32)),
    "no name": lambda binding: binding.bind_cpu_input(None, np.ones(2, np.float32)),
    "no array": lambda binding: binding.bind_cpu_input("x", "abc"),
    "no type": lambda binding: binding.bind_input("x", "cpu", 0, "junk", [2], ADDRESS),
    "no address": lambda binding: binding.bind_input("x", "cpu", 0, np.float32, [2], None),
    "no sizes": lambda binding: binding.bind_input("x", "cpu", 0, np.float32, ["a"], ADDRESS),
    "no device": lambda binding: binding.bind_input("x", "tpu", 0, np.float32, [2], ADDRESS),
    "no OrtValue": lambda binding: binding.bind_ortvalue_output("y", np.ones(2, np.float32)),
    "no device of an output": lambda binding: binding.bind_output("y", "tpu"),
    "no name of an output": lambda binding: binding.bind_output(None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_binding_of_onnxruntime_itself_is_told_in_words_what_is_wrong(name: str) -> None:
    proto = model("one (float[2] x) => (float[2] y) { [only] y = Exp (x) }")
    with hetpart.partition(proto, hardware="emulated", placement="all-cpu").session() as session:
        binding = session.io_binding()
        assert isinstance(binding, onnxruntime.IOBinding)
        with pytest.raises(InvalidFeedError) as refused:
            REFUSED[name](binding)
        assert refused.value.hint
        binding.bind_cpu_input("x", np.zeros(2, np.float32))
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        assert binding.get_outputs()[0].numpy().tolist() == [1, 1]
