from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.config import Pin, PinKind, ShapeOption, parse_pins, parse_shapes
from hetpart.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("shapes", "bound"),
    [
        ("batch=8,seq=128", {"batch": 8, "seq": 128}),
        ("seq=128, batch=8,", {"batch": 8, "seq": 128}),
        (["batch=8", "seq=128"], {"batch": 8, "seq": 128}),
        ({"seq": 128, "batch": 8}, {"batch": 8, "seq": 128}),
        ("past + 1=5", {"past + 1": 5}),
        ("max(a, b)=5,c=6", {"max(a, b)": 5, "c": 6}),
        ("(=5,)=6", {"(": 5, ")": 6}),
        ("batch=8,batch=8", {"batch": 8}),
        ("past=0", {"past": 0}),
        ("past=?,seq=1", {"past": -1, "seq": 1}),
        ({"past": "?"}, {"past": -1}),
        (None, {}),
        ("", {}),
    ],
)
def test_shapes_bind_dimensions(shapes: ShapeOption, bound: dict[str, int]) -> None:
    assert parse_shapes(shapes) == bound
    assert list(parse_shapes(shapes)) == sorted(bound)


NAMES = st.text(st.characters(exclude_characters=",", codec="utf-8"), min_size=1).filter(
    lambda name: name == name.strip()
)


@given(st.dictionaries(NAMES, st.integers(0, 2**40)))
@settings(deadline=None)
def test_shapes_read_back_as_written(bound: dict[str, int]) -> None:
    assert parse_shapes(",".join(f"{name}={size}" for name, size in bound.items())) == bound
    assert parse_shapes(bound) == bound


@pytest.mark.parametrize(
    "shapes",
    [
        "batch",
        "batch=",
        "=8",
        "batch=-1",
        "batch=8.0",
        "batch=x",
        "batch=٨",
        "batch=8,batch=9",
        {"batch": -1},
    ],
)
def test_a_bad_shape_says_what_to_write(shapes: str | dict[str, int]) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        parse_shapes(shapes)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "kind", "pattern", "device"),
    [
        ("encoder.layer.0.*=cpu", PinKind.ANY, "encoder.layer.0.*", "cpu"),
        ("op:Gather=host", PinKind.OP, "Gather", "cpu"),
        ("node:/fc/MatMul=cuda:0", PinKind.NODE, "/fc/MatMul", "cuda:0"),
        ("node:a=b=cuda", PinKind.NODE, "a=b", "cuda:0"),
        ("aten::add=CUDA:1", PinKind.ANY, "aten::add", "cuda:1"),
    ],
)
def test_a_pin_is_a_pattern_and_a_device(text: str, kind: PinKind, pattern: str, device: str) -> None:
    assert parse_pins(text) == parse_pins([text]) == (Pin(kind, pattern, device, text),)


PATTERNS = st.text(min_size=1).filter(lambda text: text == text.strip() and not text.startswith(("op:", "node:")))


@given(PATTERNS, st.sampled_from(["", "op:", "node:"]), st.sampled_from(["cpu", "cuda:0", "cuda:12"]))
@settings(deadline=None)
def test_pins_read_back_as_written(pattern: str, prefix: str, device: str) -> None:
    (pin,) = parse_pins(f"{prefix}{pattern}={device}")
    assert (pin.pattern, pin.device, pin.kind) == (pattern, device, PinKind(prefix[:-1] or "any"))


@pytest.mark.parametrize("text", ["", "Gather", "=cpu", "op:=cpu", "Gather=", "Gather=two words", "  =cpu"])
def test_a_bad_pin_says_what_to_write(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="not pattern=device") as caught:
        parse_pins(text)
    assert "op:Gather=cpu" in caught.value.hint
