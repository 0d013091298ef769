from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hetpart.files import write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for content in (b"first", b"second"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "there", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        write_whole(tmp_path / "none" / "a.csv", b"")
    assert caught.value.filename == str(tmp_path / "none" / "a.csv")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"")
