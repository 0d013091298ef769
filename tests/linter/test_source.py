"""The line of Python in a checkout, from paths that exporters record elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetpart.linter.source import source_in
from hetpart.plan.findings import SourceLine


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere") / "checkout"
    for file in ("src/net.py", "net.py", "lib/site-packages/torch.py", "../secret.py"):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / "link.py").symlink_to("../secret.py")
    (folder / "inner.py").symlink_to("net.py")
    return folder


def found(checkout: Path, *files: str) -> SourceLine | None:
    stack = "\n".join(f'  File "{file}", line {line}, in forward' for line, file in enumerate(files, 1))
    return source_in(stack, checkout)


@pytest.mark.parametrize(
    "recorded",
    [
        "/home/somebody/project/src/net.py",
        "C:\\Users\\somebody\\project\\src\\net.py",
        "C:/Users/somebody/src\\net.py",
        "src/net.py",
        "./src/./net.py",
    ],
)
def test_the_longest_end_of_a_path_is_looked_for(recorded: str, checkout: Path) -> None:
    assert found(checkout, recorded) == SourceLine("src/net.py", 1)


def test_a_path_of_this_checkout_is_itself(checkout: Path) -> None:
    assert found(checkout, str(checkout / "src" / "net.py")) == SourceLine("src/net.py", 1)
    assert found(checkout, "inner.py") == SourceLine("inner.py", 1)


def test_the_innermost_call_of_the_checkout_counts(checkout: Path) -> None:
    files = ("/a/net.py", "/a/src/net.py", "/a/lib/site-packages/torch.py", "/a/none.py")
    assert found(checkout, *files) == SourceLine("src/net.py", 2)


@pytest.mark.parametrize(
    "recorded",
    [
        "../secret.py",
        "{checkout}/../secret.py",
        "src/../../secret.py",
        "src\\..\\..\\secret.py",
        "link.py",
        "src",
        "/a/none.py",
        "/a/b" * 10_000,
        "/" + "a" * 10_000,
        "\0",
    ],
)
def test_nothing_outside_is_ever_given(recorded: str, checkout: Path) -> None:
    assert found(checkout, recorded.format(checkout=checkout)) is None
