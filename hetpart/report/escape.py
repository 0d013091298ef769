"""Names out of model files, made safe to print: a terminal sees no control character of theirs."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    r"""``text`` with everything that is not printable escaped as in ``\x1b``, but for the characters in ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
