from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.report.escape import printable

DANGEROUS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: controls, invisible format characters such as bidi overrides, lone surrogates, line ends."""


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("encoder/Größe_µ→", "encoder/Größe_µ→"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\x9b31m", r"a\x9b31m"),
        ("line\nfeed\ttab\r", r"line\nfeed\ttab\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udc80", r"\udc80"),
        ("\u2028", r"\u2028"),
        ("\U000e0041", r"\U000e0041"),
        ("\x00", r"\x00"),
        ("::error::a", r"\x3a:error::a"),
        ("  ::error::a", r"  \x3a:error::a"),
        ("aten::add", "aten::add"),
        ("a ##[error]b###[c", r"a #\x23[error]b##\x23[c"),
    ],
)
def test_what_is_not_printable_is_shown_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe


@given(st.text())
@settings(deadline=None)
def test_nothing_dangerous_is_left(text: str) -> None:
    safe = printable(text)
    assert not {unicodedata.category(character) for character in safe} & DANGEROUS
    safe.encode("utf-8")


@given(st.text())
@settings(deadline=None)
def test_only_the_characters_to_keep_are_kept(text: str) -> None:
    assert printable(text, keep="\n").split("\n") == [printable(line) for line in text.split("\n")]
