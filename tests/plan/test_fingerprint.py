from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetpart.errors import InvalidBundleError
from hetpart.plan import fingerprint as module
from hetpart.plan.fingerprint import BLOCK_BYTES, BLOCKS, WHOLE_BYTES, describe_file, fingerprint, verify_files
from hetpart.plan.model import WeightFile

SAMPLED_BYTES = BLOCKS * BLOCK_BYTES
HUNDRED_GB = 100_000_000_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file large enough to be sampled: the limit is lowered to its size, not the file raised to the limit."""
    monkeypatch.setattr(module, "WHOLE_BYTES", SAMPLED_BYTES)
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(256)) * 4096)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


def overwrite(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def test_the_full_digest_is_sha256_of_the_content(file: Path) -> None:
    assert fingerprint(file, full=True) == hashlib.sha256(file.read_bytes()).hexdigest()


@given(content=st.binary(min_size=1, max_size=64), position=st.integers(0, 63))
@settings(deadline=None)
def test_every_byte_of_a_small_file_counts(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, position: int
) -> None:
    path = tmp_path_factory.mktemp("small") / "weights.bin"
    path.write_bytes(content)
    before = fingerprint(path)
    at = position % len(content)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert fingerprint(path) != before


def test_a_bit_in_the_middle_of_a_file_of_some_megabytes_counts(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(WHOLE_BYTES // 16))
    before = fingerprint(path)
    overwrite(path, WHOLE_BYTES // 32 + 1, b"\x01")
    assert fingerprint(path) != before


@pytest.mark.parametrize("nbytes", [0, 1, SAMPLED_BYTES - 1, SAMPLED_BYTES, SAMPLED_BYTES + 1, SAMPLED_BYTES + 2])
def test_sizes_around_the_sample_differ_from_each_other(tmp_path: Path, nbytes: int) -> None:
    (tmp_path / "a").write_bytes(bytes(nbytes))
    (tmp_path / "b").write_bytes(bytes(nbytes + 1))
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "b")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "a")


def test_a_change_of_the_first_or_the_last_byte_is_seen(file: Path) -> None:
    before = fingerprint(file)
    overwrite(file, file.stat().st_size - 1, b"\x00")
    last = fingerprint(file)
    overwrite(file, 0, b"\xff")
    assert len({before, last, fingerprint(file)}) == 3


def test_no_gap_between_samples_is_wider_than_a_share_of_the_file(file: Path) -> None:
    step = (file.stat().st_size - BLOCK_BYTES) // (BLOCKS - 1)
    before = fingerprint(file)
    overwrite(file, file.stat().st_size // 2, b"\xaa" * (step + 1))
    assert fingerprint(file) != before


def test_a_file_of_100_gb_costs_64_blocks_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "tables.bin"
    with path.open("wb") as file:
        file.truncate(HUNDRED_GB)
    before = read_bytes_so_far()
    digest = fingerprint(path)
    assert read_bytes_so_far() - before < 2 * SAMPLED_BYTES
    overwrite(path, HUNDRED_GB - 1, b"\x01")
    assert fingerprint(path) != digest


def read_bytes_so_far() -> int:
    """Bytes this process asked the system for."""
    rows = dict(line.split(": ") for line in Path(f"/proc/{os.getpid()}/io").read_text().splitlines())
    return int(rows["rchar"])


def test_files_that_did_not_change_are_verified(file: Path) -> None:
    record = describe_file(file.parent, file.name)
    assert record == WeightFile(file.name, 2**20, fingerprint(file))
    verify_files(file.parent, [record])
    verify_files(file.parent, [describe_file(file.parent, file.name, full=True)], full=True)


def test_a_changed_size_is_told_with_both_sizes(file: Path) -> None:
    record = describe_file(file.parent, file.name)
    overwrite(file, 2**20, b"more")
    with pytest.raises(InvalidBundleError, match=r"weights\.bin.*1048580 bytes, and 1048576 then") as caught:
        verify_files(file.parent, [record])
    assert "hetpart partition" in caught.value.hint


def test_changed_content_is_told(file: Path) -> None:
    record = describe_file(file.parent, file.name)
    overwrite(file, 0, b"other")
    with pytest.raises(InvalidBundleError, match=r"content of the weight file .*weights\.bin' changed"):
        verify_files(file.parent, [record])


def test_a_full_digest_sees_what_the_sample_misses(file: Path) -> None:
    record = describe_file(file.parent, file.name, full=True)
    overwrite(file, BLOCK_BYTES + 1, b"\xee")
    verify_files(file.parent, [record])
    with pytest.raises(InvalidBundleError, match="content"):
        verify_files(file.parent, [record], full=True)


def test_full_needs_a_plan_with_full_digests(file: Path) -> None:
    with pytest.raises(InvalidBundleError, match="only a sampled digest") as caught:
        verify_files(file.parent, [describe_file(file.parent, file.name)], full=True)
    assert "--verify full" in caught.value.hint


def test_a_missing_file_is_told(file: Path) -> None:
    record = describe_file(file.parent, file.name)
    file.unlink()
    with pytest.raises(InvalidBundleError, match="missing"):
        verify_files(file.parent, [record])


@pytest.mark.parametrize("path", ["../weights.bin", "/etc/hostname", "a/../../weights.bin"])
def test_a_path_that_leaves_the_folder_is_refused(file: Path, path: str) -> None:
    record = replace(describe_file(file.parent, file.name), path=path)
    with pytest.raises(InvalidBundleError, match="leaves"):
        verify_files(file.parent, [record])
