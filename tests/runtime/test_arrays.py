from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetpart.errors import HetpartError, InvalidFeedError, InvalidOptionError
from hetpart.runtime.arrays import read_inputs, write_arrays


def test_inputs_are_read_from_npy_files(tmp_path: Path) -> None:
    arrays = {"ids": np.arange(6).reshape(2, 3), "a=b": np.array(["x", "yy"]), "scalar": np.float32(2.5)}
    for position, array in enumerate(arrays.values()):
        np.save(tmp_path / f"{position}.npy", array)
    read = read_inputs([f"{name}={tmp_path / f'{position}.npy'}" for position, name in enumerate(arrays)])
    assert list(read) == list(arrays)
    assert all(np.array_equal(read[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"not an array", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x04\x00{{{{"]
)
def test_a_file_that_is_no_array_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.npy").write_bytes(content)
    with pytest.raises(InvalidFeedError, match=r"bad\.npy.*'ids'"):
        read_inputs([f"ids={tmp_path / 'bad.npy'}"])


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidFeedError, match=r"(?i)pickle|object") as caught:
        read_inputs([f"ids={tmp_path / 'objects.npy'}"])
    assert "objects" in caught.value.hint


def test_a_missing_input_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFeedError, match="No such file"):
        read_inputs([f"ids={tmp_path / 'none.npy'}"])


@pytest.mark.parametrize("texts", [["ids"], ["=x.npy"], ["ids="]])
def test_an_input_without_name_or_file_is_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidOptionError, match="not name=file"):
        read_inputs(texts)


def test_an_input_given_twice_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(1))
    with pytest.raises(InvalidOptionError, match="twice"):
        read_inputs([f"x={tmp_path / 'x.npy'}"] * 2)


def test_a_file_that_is_no_whole_array_says_what_it_is(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-8])
    (tmp_path / "lfs.npy").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    for name, said in (("cut", "cut short: it ends after 920 bytes"), ("lfs", "a git-LFS pointer")):
        with pytest.raises(InvalidFeedError, match=said):
            read_inputs([f"x={tmp_path / name}.npy"])


def test_results_that_cannot_be_written_say_where_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / ("n" * 300), Path("/proc/none")):
        with pytest.raises(HetpartError, match="cannot write the results to") as refused:
            write_arrays({"z": np.zeros(2)}, folder)
        assert str(folder) in refused.value.message
        assert "--output" in refused.value.hint

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(HetpartError, match="No space left"):
        write_arrays({"z": np.zeros(2)}, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
