"""Inputs and outputs that the caller keeps on the accelerator, beside the uncut model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart.errors import InvalidFeedError
from hetpart.plan.io import read_plan, write_plan
from tests.runtime.models import assert_same, model, plain

MODEL = model("""g (float[4,4] x, float[4,4] p) => (float[4,4] z, float[4,4] y, float[4,4] w) {
    [a] a = Relu(x) [b] y = Sin(a) [c] c = Add(a, p) [d] w = Exp(p) [e] z = Mul(c, y)
}""")
OPEN = model("g (float[n] x) => (float[m] z, float[n] y) { [a] y = Neg(x) [b] i = NonZero(y) [c] z = Cast<to=1>(i) }")
FEEDS = {name: np.arange(16, dtype=np.float32).reshape(4, 4) / (3 + i) - 2 for i, name in enumerate(("x", "p"))}
KEPT = [{"p": "cuda", "y": "cuda", "z": "cuda", "w": "cuda"}, {"x": "cuda", "z": "cuda"}, {"w": "cuda"}]


def values(feeds: dict[str, Any]) -> dict[str, onnxruntime.OrtValue]:
    return {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}


def opened(io: dict[str, str], seed: int, **options: Any) -> hetpart.Session:
    made = hetpart.partition(MODEL, hardware="emulated", placement=f"random:{seed}", io=io)
    assert read_plan(write_plan(made.plan), "here") == made.plan
    return hetpart.Session(made.bundle(), emulate=True, optimize=False, **options)


@pytest.mark.parametrize("io", KEPT)
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_every_call_gives_what_the_uncut_model_gives(io: dict[str, str], overlap: bool, seed: int) -> None:
    other = {name: array + 1 for name, array in FEEDS.items()}
    uncut = plain(MODEL)
    with opened(io, seed, overlap=overlap) as session:
        assert_same(session.run(None, FEEDS), uncut.run(None, FEEDS))
        made = session.run_with_ort_values(None, values(FEEDS))
        session.run_with_ort_values(None, values(other))  # must not write over what was given before
        assert_same([value.numpy() for value in made], uncut.run(None, FEEDS))
        assert_same(session.run(None, {"x": made[0], "p": made[1]}), uncut.run(None, {
            "x": made[0].numpy(), "p": made[1].numpy()
        }))  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_binding_reads_and_writes_where_the_plan_keeps_them(seed: int) -> None:
    given, taken = FEEDS["p"].copy(), np.empty((4, 4), np.float32)
    uncut = plain(MODEL).run(None, FEEDS)
    with opened({"p": "cuda", "w": "cuda", "y": "cuda", "z": "cuda"}, seed) as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", FEEDS["x"])
        binding.bind_input("p", "cuda", 0, np.float32, [4, 4], given.ctypes.data)
        binding.bind_output("z", "cuda")
        binding.bind_output("y")
        binding.bind_output("w", "cuda", 0, np.float32, [4, 4], taken.ctypes.data)
        session.run_with_iobinding(binding)
        assert_same([value.numpy() for value in binding.get_outputs()], uncut)
        assert_same([taken], uncut[2:])
        assert_same(binding.copy_outputs_to_cpu(), uncut)


def test_an_output_is_bound_where_the_plan_hands_it_over_or_on_the_host() -> None:
    with opened({"z": "cuda"}, 1) as session:
        binding = session.io_binding()
        binding.bind_output("z", "cuda")
        with pytest.raises(InvalidFeedError, match="'y' is bound on cuda:0") as refused:
            binding.bind_output("y", "cuda")
        assert "--io y=cuda:0" in refused.value.hint


@pytest.mark.parametrize("seed", range(4))
def test_sizes_that_only_a_run_tells(seed: int) -> None:
    made = hetpart.partition(
        OPEN, hardware="emulated", placement=f"random:{seed}", io={"x": "cuda", "z": "cuda"}, shape="n=?"
    )
    with made.session(emulate=True) as session:
        for size in (3, 7):
            feeds = {"x": np.arange(size, dtype=np.float32)}
            assert_same(session.run(None, feeds), plain(OPEN).run(None, feeds))
            found = session.run_with_ort_values(None, values(feeds))
            assert_same([value.numpy() for value in found], plain(OPEN).run(None, feeds))


def test_a_tensor_without_elements_lies_there_too() -> None:
    proto = model("g (float[0,3] e, float[2] x) => (float[0,3] f, float[2] y) { [a] f = Exp(e) [b] y = Neg(x) }")
    feeds = {"e": np.empty((0, 3), np.float32), "x": np.ones(2, np.float32)}
    made = hetpart.partition(
        proto, hardware="emulated", pin=["node:a=cuda", "node:b=cpu"], io={"e": "cuda", "f": "cuda"}
    )
    with made.session(emulate=True) as session:
        assert_same(session.run(None, feeds), plain(proto).run(None, feeds))
        found = session.run_with_ort_values(None, values(feeds))
        assert_same([value.numpy() for value in found], plain(proto).run(None, feeds))


def test_a_feed_of_another_type_is_refused() -> None:
    with opened({"p": "cuda"}, 1) as session:
        wrong = values({**FEEDS, "p": FEEDS["p"].astype(np.float64)})
        with pytest.raises(InvalidFeedError, match="'p' is a tensor"):
            session.run_with_ort_values(None, wrong)
        with pytest.raises(InvalidFeedError, match=r"'p' has shape \[2, 2\]"):
            session.run(None, {**FEEDS, "p": np.zeros((2, 2), np.float32)})
