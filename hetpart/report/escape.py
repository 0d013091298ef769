"""Names out of model files, made safe to print: neither a terminal nor GitHub's runner obeys one."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"(?m)^( *):(?=:)|##(?=\[)")
"""How a line begins that GitHub's runner takes for a command, and how its older commands do anywhere in a line."""
_OLD_COMMAND = "##["
_MOST_LETTERS = 1000
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~$:&-]|(?<=[wW]{3})\.)")
"""What Markdown, or GitHub's own extensions of it, may read as more than text: ``www.`` begins a link."""
_MENTION = re.compile("@(?=.)")


def printable(text: str, *, keep: str = "") -> str:
    r"""``text`` with everything that is not printable escaped as in ``\x1b``, but for the characters in ``keep``.

    So is what would begin a command of GitHub's runner: ``::error::`` at the start of a line, ``##[error]`` anywhere.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)
    return _COMMAND.sub(_spelt, text) if ":" in text or _OLD_COMMAND in text else text


def json_text(document: object) -> str:
    """``document`` as JSON in ASCII: a name in it reads back as it is, and nothing on the way obeys it."""
    import json

    return json.dumps(document, indent=2, allow_nan=False).replace(_OLD_COMMAND, r"#\u0023[")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _spelt(command: re.Match[str]) -> str:
    return r"#\x23" if command[1] is None else rf"{command[1]}\x3a"


def markdown_text(text: str) -> str:
    """``text`` with nothing left that Markdown reads as its own; a long one is cut, and nobody is called by it."""
    shown = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
    # GitHub sends nobody a message for an @ that a comment parts from the name
    return _MENTION.sub("@<!-- -->", _MARKDOWN.sub(r"\\\1", printable(shown)))
