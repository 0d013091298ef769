"""Whatever kind of value crosses between devices, in whichever direction, arrives bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from hetpart.runtime import frame
from hetpart.runtime.values import address_of, fresh_array
from tests.runtime.models import assert_same, cut, model, plain

NUMBERS = np.array([3, 0, -1, 0, 2.5, 0], np.float32)


@dataclass(frozen=True)
class Case:
    graph: str
    feeds: dict[str, Any] = field(default_factory=dict)
    opset: int = 21

    @property
    def model(self) -> onnx.ModelProto:
        return model(self.graph, opset=self.opset)


def _elementwise(dtype: str, array: np.ndarray, op: str = "Identity") -> Case:
    return Case(
        f"g ({dtype}[2,3] x) => ({dtype}[2,3] z, {dtype}[2,3] a) {{ [a] a = {op}(x) [b] b = {op}(a) [c] z = {op}(b) }}",
        {"x": array.reshape(2, 3)},
    )


CASES: dict[str, Case] = {
    "float32": _elementwise("float", NUMBERS, "Neg"),
    "float64": _elementwise("double", NUMBERS.astype(np.float64), "Neg"),
    "float16": _elementwise("float16", NUMBERS.astype(np.float16)),
    "bool": _elementwise("bool", NUMBERS > 0, "Not"),
    "int8": _elementwise("int8", NUMBERS.astype(np.int8), "Neg"),
    "uint8": _elementwise("uint8", np.arange(250, 256, dtype=np.uint8)),
    "int16": _elementwise("int16", NUMBERS.astype(np.int16)),
    "uint16": _elementwise("uint16", np.arange(6, dtype=np.uint16)),
    "uint32": _elementwise("uint32", np.arange(6, dtype=np.uint32)),
    "int64": _elementwise("int64", NUMBERS.astype(np.int64) << 40, "Neg"),
    "uint64": _elementwise("uint64", np.arange(2**64 - 6, 2**64 - 1, dtype=np.uint64).repeat(2)[:6]),
    "nan, infinities and a negative zero": _elementwise(
        "float", np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3e38], np.float32)
    ),
    "a scalar": Case(
        "g (float x) => (float z) { [a] a = Neg(x) [b] b = Abs(a) [c] z = Sqrt(b) }", {"x": np.array(4, np.float32)}
    ),
    "no elements": Case(
        "g (float[0,3] x) => (float[0,3] z, float[0] s) <int64[1] axis = {1}>"
        " { [a] a = Neg(x) [b] z = Abs(a) [c] s = ReduceSum<keepdims=0>(z, axis) }",
        {"x": np.zeros((0, 3), np.float32)},
    ),
    "strings": Case(
        "g (string[2,2] x) => (string[2,2] z, string[2,2] y, string[4] f) <int64[1] all = {-1}>"
        " { [a] y = Identity(x) [b] z = Identity(y) [c] f = Reshape(z, all) }",
        {"x": np.array([["a", ""], ["ü", "日本"]], object)},
    ),
    "strings of unknown number": Case(
        "g (string[4] x) => (string[N] u, int64[M] at) { [a] y = Identity(x) [b] u, at = Unique(y) }",
        {"x": np.array(["b", "a", "b", "c"])},
    ),
    "a number of values only a run can tell": Case(
        "g (float[6] x) => (int64[1,N] where, float[1,N] z, float[N] u)"
        " { [a] where = NonZero(x) [b] f = Cast<to=1>(where) [c] z = Neg(f) [d] u = Unique(x) }",
        {"x": NUMBERS},
    ),
    "nothing found": Case(
        "g (float[6] x) => (float[1,N] z) { [a] where = NonZero(x) [b] f = Cast<to=1>(where) [c] z = Neg(f) }",
        {"x": np.zeros(6, np.float32)},
    ),
    "used and returned": Case(
        "g (float[6] x) => (float[6] a, float[6] c, float[6] b) { [a] a = Neg(x) [b] b = Exp(a) [c] c = Add(a, b) }",
        {"x": NUMBERS},
    ),
    "found, used and returned": Case(
        "g (float[6] x) => (int64[1,N] a, int64[1,N] b, int64[1,N] d)"
        " { [a] a = NonZero(x) [b] b = Neg(a) [c] c = Add(a, b) [d] d = Abs(c) }",
        {"x": NUMBERS},
    ),
    "returned twice": Case(
        "g (float[6] x) => (float[6] a, float[6] a) { [a] b = Neg(x) [b] a = Exp(b) }", {"x": NUMBERS}
    ),
    "an input returned": Case(
        "g (float[6] x, float[6] y) => (float[6] x, float[6] a) { [a] b = Neg(y) [b] a = Exp(b) }",
        {"x": NUMBERS, "y": NUMBERS},
    ),
    "an input nobody reads": Case(
        "g (float[6] x, float[6] unread) => (float[6] a) { [a] b = Neg(x) [b] a = Exp(b) }",
        {"x": NUMBERS, "unread": NUMBERS},
    ),
    "a weight returned": Case(
        "g (float[2] x) => (float[2] w, float[2] a) <float[2] w = {1.5, 2.5}> { [a] b = Neg(x) [b] a = Add(b, w) }",
        {"x": NUMBERS[:2]},
    ),
    "nothing fed": Case("g () => (float[2] a, float[2] b) <float[2] w = {1.5, 2.5}> { [a] a = Neg(w) [b] b = Exp(a) }"),
    "a sequence": Case(
        "g (float[6] x, int64 at) => (float[6] z, int64 n) <int64[2] pads = {1, 0}>"
        " { [a] q = SplitToSequence(x) [b] n = SequenceLength(q) [c] r = SequenceErase(q, at)"
        " [d] e = ConcatFromSequence<axis=0>(r) [e] z = Pad(e, pads) }",
        {"x": NUMBERS, "at": np.array(-2)},
    ),
    "a sequence fed and returned": Case(
        "g (seq(float[2]) q, float[2] x) => (seq(float[2]) r, float[2] y) <int64 one = {1}>"
        " { [a] y = Neg(x) [b] s = SequenceInsert(q, y) [c] r = SequenceErase(s, one) }",
        {"q": [np.zeros(2, np.float32), np.ones(2, np.float32)], "x": NUMBERS[:2]},
    ),
    "an optional": Case(
        "g (optional(float[2]) o, float[2] x) => (bool has, float[2] z)"
        " { [a] has = OptionalHasElement(o) [b] f = Cast<to=1>(has) [c] z = Add(f, x) }",
        {"o": NUMBERS[:2], "x": NUMBERS[:2]},
    ),
    "an empty optional": Case(
        "g (optional(float[2]) o, float[2] x) => (bool has, float[2] z)"
        " { [a] has = OptionalHasElement(o) [b] f = Cast<to=1>(has) [c] z = Add(f, x) }",
        {"o": None, "x": NUMBERS[:2]},
    ),
    "bfloat16 in between": Case(
        "g (float[6] x) => (float[6] z, float[1,N] d) { [a] b = Cast<to=16>(x) [b] z = Cast<to=1>(b)"
        " [c] n = NonZero(x) [d] m = Cast<to=16>(n) [e] d = Cast<to=1>(m) }",
        {"x": NUMBERS * 1.001},
    ),
    "float8 in between": Case(
        "g (float[6] x) => (float[6] z, float[1,N] d) { [a] b = Cast<to=17>(x) [b] z = Cast<to=1>(b)"
        " [c] n = NonZero(x) [d] m = Cast<to=1>(n) [e] k = Cast<to=19>(m) [f] d = Cast<to=1>(k) }",
        {"x": NUMBERS},
    ),
    "int4 in between": Case(
        "g (float[5] x) => (float[5] z) <float s = {0.5}, int4 zero = {0}>"
        " { [a] q = QuantizeLinear(x, s, zero) [b] z = DequantizeLinear(q, s, zero) }",
        {"x": NUMBERS[:5]},
    ),
    "control flow that captures": Case(
        "g (float[6] x, bool c) => (float[6] z) { [a] y = Neg(x) [b] k = Not(c) [i] r = If (k) <"
        " then_branch = t () => (float[6] p) { p = Exp(y) }, else_branch = e () => (float[6] p) { p = Add(y, x) }>"
        " [d] z = Abs(r) }",
        {"x": NUMBERS, "c": np.array(False)},
    ),
    "an optional input left out": Case(
        "g (float[6] x, float high) => (float[6] z) { [a] y = Neg(x) [b] h = Abs(high) [c] z = Clip(y, , h) }",
        {"x": NUMBERS, "high": np.array(1, np.float32)},
    ),
    "several outputs, one left out": Case(
        "g (float[2,3] x, float[3] scale) => (float[2,3] z, float[2,1] k) { [a] y = Neg(x)"
        " [b] z, , i = LayerNormalization(y, scale) [c] k = Neg(i) }",
        {"x": NUMBERS.reshape(2, 3), "scale": np.ones(3, np.float32)},
    ),
}


def placements(names: list[str]) -> Iterator[tuple[str, ...]]:
    """Every set of nodes on the accelerator, for up to five nodes; else a few of each size."""
    for size in range(len(names) + 1):
        yield from list(combinations(names, size))[: 32 if len(names) <= 5 else 4]


@pytest.mark.parametrize("name", CASES)
def test_every_placement_gives_what_one_session_gives(name: str) -> None:
    case = CASES[name]
    expected = plain(case.model).run(None, case.feeds)
    for accelerated in placements([node.name for node in case.model.graph.node]):
        with cut(case.model, accelerated) as session:
            for _ in range(2):
                assert_same(session.run(None, case.feeds), expected)


EXTENSIONS = {
    "bfloat16": (16, ml_dtypes.bfloat16),
    "float8e4m3fn": (17, ml_dtypes.float8_e4m3fn),
    "float8e5m2": (19, ml_dtypes.float8_e5m2),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize("accelerated", [(), ("a",), ("b",), ("a", "b"), ("a", "c"), ("d",), ("c", "e")])
def test_types_that_numpy_lacks_are_fed_and_returned(name: str, accelerated: tuple[str, ...]) -> None:
    """ONNX Runtime's ``run`` takes none of them, so ``ml_dtypes`` says what a cast gives."""
    number, dtype = EXTENSIONS[name]
    proto = model(
        f"g ({name}[6] x) => (float[6] f, {name}[6] y, {name}[1,N] d) {{ [a] f = Cast<to=1>(x) [b] g = Neg(f)"
        f" [c] y = Cast<to={number}>(g) [d] n = NonZero(f) [e] m = Cast<to=1>(n) [f] d = Cast<to={number}>(m) }}"
    )
    x = NUMBERS.astype(dtype)
    with cut(proto, accelerated) as session:
        f, y, d = session.run(None, {"x": x})
        assert_same([f], [x.astype(np.float32)])
        assert_same([y], [(-x.astype(np.float32)).astype(dtype)])
        assert_same([d], [np.array(np.nonzero(x.astype(np.float32))).astype(dtype)])


def test_packed_types_are_fed_and_returned_as_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last byte holds one element, and four bits that no kernel writes."""
    monkeypatch.setattr(frame, "fresh_array", lambda spec: np.full_like(fresh_array(spec), 0xFF))
    proto = model(
        "g (int4[5] x) => (float[5] f, int4[5] y) <float s = {0.5}, int4 zero = {0}>"
        " { [a] f = DequantizeLinear(x, s, zero) [b] y = QuantizeLinear(f, s, zero) }"
    )
    packed = np.array([0x21, 0xF7, 0x08], np.uint8)  # 1, 2, 7, -1, -8: low nibble first
    for accelerated in ((), ("a",), ("b",), ("a", "b")):
        with cut(proto, accelerated) as session:
            f, y = session.run(None, {"x": packed})
            assert f.tolist() == [0.5, 1, 3.5, -0.5, -4]
            assert (y & [0xFF, 0xFF, 0x0F]).tolist() == packed.tolist()  # nothing lies in the last half


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


ARRAYS = {
    "writable": np.ones((2, 3), np.float32),
    "read-only": _read_only(np.ones(3)),
    "empty": np.empty((0, 4), np.int64),
    "no size": np.array(7),
    "a part": np.arange(10)[3:],
    "turned": np.ones((2, 3)).T,
    "of a type that buffers do not know": np.ones(3, ml_dtypes.bfloat16),
    "booleans": np.ones(3, np.bool_),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_the_address_of_an_array_is_that_of_its_first_element(kind: str) -> None:
    array = ARRAYS[kind]
    assert address_of(array) == array.__array_interface__["data"][0]


PASSED = model("""passed (float[2,3] x, int8[] n, bfloat16[2] h, bool[0,2] e) =>
    (float[2,3] y, int8[] m, bfloat16[2] g, bool[0,2] f) {
    [a] y = Neg(x) [b] m = Neg(n) [c] g = Neg(h) [d] f = Not(e)
}""")


@pytest.mark.parametrize("overlap", [False, True])
def test_results_that_cross_devices_are_the_callers_own(overlap: bool) -> None:
    """Each is another array than the arena's and than that of the run before, however the feed is laid out."""
    half = np.dtype(ml_dtypes.bfloat16)
    with cut(PASSED, ("a", "b", "c", "d"), overlap=overlap) as session:
        kept: list[tuple[list[Any], list[Any]]] = []
        for number in range(4):
            x = np.arange(6, dtype=np.float32).reshape(3, 2).T + number
            n, e = np.array(number, np.int8), np.zeros((0, 2), np.bool_)
            fed = {"x": x, "n": n, "h": np.array([number, 1], half), "e": e}
            kept.append((session.run(None, fed), [-x, -n, -fed["h"], ~e]))
        assert not any(np.shares_memory(kept[0][0][0], one[0]) for one, _ in kept[1:])
        for ours, expected in kept:
            for mine, theirs in zip(ours, expected, strict=True):
                assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
                np.testing.assert_array_equal(mine, theirs)
