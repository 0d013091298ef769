# pyright: reportUnknownMemberType=false
from __future__ import annotations

import gzip
import math
import re
import struct
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.training.data import Criteo, cifar, criteo, mnist

CARDINALITIES = tuple(range(5, 31))


def lines(count: int) -> list[list[str]]:
    random = np.random.default_rng(0)
    rows: list[list[str]] = []
    for _ in range(count):
        counts = [
            "" if random.random() < 0.3 else str(random.integers(-2, 10 ** random.integers(1, 8))) for _ in range(13)
        ]
        hashes = ["" if random.random() < 0.2 else f"{random.integers(0, 2**32):08x}" for _ in range(26)]
        rows.append([str(random.integers(0, 2)), *counts, *hashes])
    return rows


def expected(row: list[str]) -> tuple[list[int], list[float], float]:
    dense = [math.log1p(max(int(text or 0), 0)) for text in row[1:14]]
    ids = [1 + int(text, 16) % (rows - 1) if text else 0 for text, rows in zip(row[14:], CARDINALITIES, strict=True)]
    return ids, dense, float(row[0])


def text_of(rows: list[list[str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("chunk", [1 << 24, 1000, 211], ids=str)
@pytest.mark.parametrize("packed", [True, False])
def test_criteos_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, packed: bool) -> None:
    monkeypatch.setattr(criteo, "_CHUNK", chunk)
    rows = lines(23)
    path = tmp_path / ("day_0.gz" if packed else "train.txt")
    path.write_bytes(gzip.compress(text_of(rows)) if packed else text_of(rows)[:-1])  # the last newline may be missing
    batches = list(Criteo(path, 5, CARDINALITIES, drop_last=False))
    assert [len(label) for _, _, label in batches] == [5, 5, 5, 5, 3]
    ids, dense, label = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert (ids.dtype, dense.dtype, label.dtype) == (torch.int64, torch.float32, torch.float32)
    wanted = [expected(row) for row in rows]
    assert ids.tolist() == [one[0] for one in wanted]
    torch.testing.assert_close(dense, torch.tensor([one[1] for one in wanted]))
    assert label.tolist() == [one[2] for one in wanted]
    assert len(list(Criteo(path, 5, CARDINALITIES))) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "file is empty"),
        (b"1\t2\n", "file, line 1: it does not have 40 columns, but 2"),
        (b"\t".join([b"0"] * 41) + b"\n", "does not have 40 columns"),
        (b"\t".join([b"x"] * 40) + b"\n", "line 1: column 1 holds 'x', which is no number of base 10"),
        (b"\t".join([b"0"] * 39 + [b"0123456g"]) + b"\n", "column 40 holds '0123456g', which is no number of base 16"),
        (b"\t".join([b"0"] * 39 + [b"123456789"]) + b"\n", "holds '123456789', more than 8 digits"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(HetpartError, match=message):
        list(Criteo(tmp_path / "file", 1, CARDINALITIES))


@pytest.mark.parametrize("chunk", [1 << 24, 1000], ids=str)
@pytest.mark.parametrize(
    ("column", "held", "why"),
    [
        (0, "", "no label"),
        (0, "7", "no label"),
        (0, "-1", "no label"),
        (3, "-", "no number"),
        (3, "1-", "no number"),
        (13, "12345678901", "more than 10 digits"),
        (14, "-1", "no number"),
    ],
)
def test_a_field_that_cannot_be_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, column: int, held: str, why: str
) -> None:
    monkeypatch.setattr(criteo, "_CHUNK", chunk)
    rows = lines(9)
    rows[6][column] = held
    (tmp_path / "file").write_bytes(text_of(rows))
    with pytest.raises(HetpartError, match=f"file, line 7: column {column + 1} holds '{held}', .*{why}"):
        list(Criteo(tmp_path / "file", 1, CARDINALITIES))


@pytest.mark.parametrize("chunk", [1 << 24, 211], ids=str)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_lines_may_end_as_windows_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, cut: int
) -> None:
    monkeypatch.setattr(criteo, "_CHUNK", chunk)
    rows = lines(9)
    rows[-1][-1] = ""
    text = text_of(rows).replace(b"\n", b"\r\n")
    (tmp_path / "file").write_bytes(text[: len(text) - cut])
    [(ids, dense, label)] = list(Criteo(tmp_path / "file", 9, CARDINALITIES))
    wanted = [expected(row) for row in rows]
    assert ids.tolist() == [one[0] for one in wanted]
    torch.testing.assert_close(dense, torch.tensor([one[1] for one in wanted]))
    assert label.tolist() == [one[2] for one in wanted]


def test_two_broken_lines_do_not_make_two_whole_ones(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\t".join([b"0"] * 39) + b"\n" + b"\t".join([b"0"] * 41) + b"\n")
    with pytest.raises(HetpartError, match="does not have 40 columns"):
        list(Criteo(tmp_path / "file", 1, CARDINALITIES))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HetpartError, match=r"nothing\.gz cannot be read"):
        list(Criteo(tmp_path / "nothing.gz", 1))
    (tmp_path / "torn.gz").write_bytes(gzip.compress(text_of(lines(9)))[:-20])
    with pytest.raises(HetpartError, match=r"torn\.gz cannot be read"):
        list(Criteo(str(tmp_path / "torn.gz"), 1))
    packed = bytearray(gzip.compress(text_of(lines(9))))
    packed[10] |= 0b110  # a kind of block that there is not
    (tmp_path / "odd.gz").write_bytes(bytes(packed))
    with pytest.raises(HetpartError, match=r"odd\.gz cannot be read"):
        list(Criteo(tmp_path / "odd.gz", 1))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("chunk", [1 << 24, 64, 7])
def test_a_last_line_may_be_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, end: bytes) -> None:
    monkeypatch.setattr("hetpart.training.data.criteo._CHUNK", chunk)
    line = b"1" + b"\t5" * 39 + end
    for text in (line * 3, line * 3 + end):
        (tmp_path / "file").write_bytes(text)
        assert [len(label) for _, _, label in Criteo(tmp_path / "file", 1)] == [1, 1, 1]
    for text in (line + end + line, line + end + end, end + line):
        (tmp_path / "file").write_bytes(text)
        with pytest.raises(HetpartError, match="it does not have 40 columns"):
            list(Criteo(tmp_path / "file", 1))


def test_tables_of_no_rows_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="cardinalities cannot be None"):
        Criteo("file", 2, cast("Any", None))
    with pytest.raises(InvalidOptionError, match="a cardinality cannot be 1") as error:
        Criteo(Path("file"), 1, (1,) * 26)
    assert "give 26 whole numbers from 2 on" in error.value.hint
    with pytest.raises(InvalidOptionError, match="there are 25 cardinalities"):
        Criteo(Path("file"), 1, (9,) * 25)
    with pytest.raises(InvalidOptionError, match=r"a cardinality cannot be 10\.5"):
        Criteo(Path("file"), 1, cast("Any", (10.5,) * 26))


@pytest.mark.parametrize("size", [0, "32"])
def test_batches_of_no_number_are_refused(size: Any) -> None:
    with pytest.raises(InvalidOptionError, match="batch_size cannot be"):
        Criteo(Path("file"), size)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("mark", ["-", "."])
def test_mnist_is_read(tmp_path: Path, packed: bool, mark: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)
    labels = np.arange(7, dtype=np.uint8)
    for name, content in {f"train-images{mark}idx3-ubyte": pixels, f"train-labels{mark}idx1-ubyte": labels}.items():
        raw = struct.pack(f">HBB{content.ndim}I", 0, 8, content.ndim, *content.shape) + content.tobytes()
        (tmp_path / (name + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)
    images, found = mnist(tmp_path)
    assert images.shape == (7, 1, 28, 28)
    torch.testing.assert_close(images[:, 0], torch.from_numpy(pixels.astype(np.float32) / 255))
    assert found.tolist() == labels.tolist()
    assert found.dtype == torch.int64
    assert torch.equal(mnist(str(tmp_path))[1], found)
    with pytest.raises(HetpartError, match="t10k-images-idx3-ubyte cannot be read"):
        mnist(tmp_path, "test")
    with pytest.raises(InvalidOptionError, match="split cannot be 'val'"):
        mnist(tmp_path, "val")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("images", [(7, 28, 28), (6, 32, 32), (6, 28)])
def test_images_of_another_form_or_without_their_labels_are_refused(tmp_path: Path, images: tuple[int, ...]) -> None:
    for name, shape in {"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": (6,)}.items():
        head = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
        (tmp_path / name).write_bytes(head + bytes(int(np.prod(shape))))
    with pytest.raises(HetpartError, match=rf"holds {re.escape(str([*images]))} bytes and .* \[6\]"):
        mnist(tmp_path)


@pytest.mark.parametrize("given", [None, 3, ""])
def test_what_is_no_path_is_told(given: Any) -> None:
    for read in (mnist, cifar):
        with pytest.raises(InvalidOptionError, match="folder cannot be"):
            read(given)
    with pytest.raises(InvalidOptionError, match="path cannot be"):
        Criteo(given, 2)


def test_a_label_that_is_no_digit_is_refused(tmp_path: Path) -> None:
    images, labels = np.zeros((4, 28, 28), np.uint8), np.array([9, 0, 77, 10], np.uint8)
    for name, content in {"train-images-idx3-ubyte": images, "train-labels-idx1-ubyte": labels}.items():
        raw = struct.pack(f">HBB{content.ndim}I", 0, 8, content.ndim, *content.shape) + content.tobytes()
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(HetpartError, match=r"train-labels-idx1-ubyte has the label 77 for its image 3, .* 10 classes"):
        mnist(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"\0\0\x08", b"\0\0\x0d\x01\0\0\0\x01a", b"\0\0\x08\x01\0\0\0\x02a"])
def test_other_idx_files_are_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(raw)
    with pytest.raises(HetpartError, match="is no IDX file of bytes"):
        mnist(tmp_path)


@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_is_read(tmp_path: Path, classes: int) -> None:
    random = np.random.default_rng(0)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if classes == 10 else ["train.bin"]
    pixels = random.integers(0, 256, (len(names), 2, 3, 32, 32), np.uint8)
    labels = random.integers(0, classes, (len(names), 2), np.uint8)
    for name, images, own in zip(names, pixels, labels, strict=True):
        coarse = b"\x07" if classes == 100 else b""
        (tmp_path / name).write_bytes(
            b"".join(coarse + bytes([label]) + image.tobytes() for label, image in zip(own, images, strict=True))
        )
    found, numbers = cifar(tmp_path, "train", classes)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(found, torch.from_numpy(pixels.reshape(-1, 3, 32, 32).astype(np.float32) / 255))
    assert numbers.tolist() == labels.reshape(-1).tolist()
    wrong: tuple[Any, ...] = (11, float(classes), str(classes), [classes], True)
    for odd in wrong:
        with pytest.raises(InvalidOptionError, match=re.escape(f"classes cannot be {odd!r}")):
            cifar(tmp_path, "train", odd)
    (tmp_path / names[0]).write_bytes(bytes([classes]) * (3072 + (2 if classes == 100 else 1)))
    with pytest.raises(HetpartError, match=f"{names[0]} has the label {classes} for its image 1, "):
        cifar(tmp_path, "train", classes)  # pyright: ignore[reportArgumentType]
    (tmp_path / names[0]).write_bytes(b"cut off")
    with pytest.raises(HetpartError, match="holds 7 bytes, which is no number of images"):
        cifar(tmp_path, "train", classes)  # pyright: ignore[reportArgumentType]
