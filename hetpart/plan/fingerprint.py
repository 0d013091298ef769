"""Whether a weight file is still the one a plan was made for.

A quick digest is taken over the size and sampled blocks, so that a file of 100 GB costs milliseconds; it sees a file
that was replaced, cut short or retrained, and may miss a change of a few bytes. A full digest reads all and sees all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from hetpart.errors import InvalidBundleError
from hetpart.plan.model import WeightFile

BLOCK_BYTES = 4096
BLOCKS = 64
WHOLE_BYTES = 32 * 2**20
"""Size up to which a file is read whole even for a quick digest: some 20 ms."""
_WEIGHTS = "weight file"
_REPARTITION = "put the file back as it was, or run `hetpart partition` on the model again"


def fingerprint(path: Path, *, full: bool = False) -> str:
    """SHA-256, in hexadecimal, over the size and sampled blocks of the file; over all of it where ``full``.

    A file of at most ``WHOLE_BYTES`` is always read whole. The two kinds of digest never agree.
    """
    if full:
        return _full(path)
    with path.open("rb") as file:
        return _sampled(file, path.stat().st_size)


def describe_file(folder: Path, path: str, *, full: bool = False) -> WeightFile:
    """The record of the weight file ``path``, relative to ``folder``, as it is now."""
    absolute = folder / path
    digest = fingerprint(absolute)
    return WeightFile(path, absolute.stat().st_size, digest, fingerprint(absolute, full=True) if full else "")


def verify_files(folder: Path, files: Iterable[WeightFile], *, full: bool = False) -> None:
    """Every file in ``folder`` is as the plan knew it.

    Raises:
        InvalidBundleError: a file is missing, its size or content changed, or ``full`` is asked of a plan that holds no
            full digests.
    """
    for file in files:
        _verify(folder / file.path, file, full=full)


def verify_sources(model: Path, sources: Sequence[WeightFile]) -> None:
    """The model file ``model`` and its weight files are those of ``sources``, whose first is the model's.

    Raises:
        InvalidBundleError: one is missing, or changed since the plan was made.
    """
    for number, file in enumerate(sources):
        path, kind = (_beside(model, file), _WEIGHTS) if number else (model, "model file")
        try:
            _verify(path, file, full=False, kind=kind)
        except InvalidBundleError as error:
            raise InvalidBundleError(error.message, hint=f"{error.hint}, or run without --check") from None


def _beside(model: Path, file: WeightFile) -> Path:
    """Where the weights of ``model`` lie: beside it or, where it is a link, beside what it links to."""
    places = [folder / file.path for folder in (model.parent, model.resolve().parent)]
    return next((path for path in places if path.is_file()), places[0])


def _verify(path: Path, file: WeightFile, *, full: bool, kind: str = _WEIGHTS) -> None:
    if Path(file.path).is_absolute() or ".." in Path(file.path).parts:
        raise InvalidBundleError(f"the weight file {file.path!r} leaves the model's folder", hint=_REPARTITION)
    try:
        nbytes = path.stat().st_size
        changed = nbytes == file.nbytes and _digest_differs(path, file, full=full)
    except FileNotFoundError:
        raise InvalidBundleError(f"the {kind} {str(path)!r} is missing", hint=_REPARTITION) from None
    if nbytes != file.nbytes:
        raise InvalidBundleError(
            f"the {kind} {str(path)!r} changed since the plan was made: {nbytes} bytes, and {file.nbytes} then",
            hint=_REPARTITION,
        )
    if changed:
        raise InvalidBundleError(
            f"the content of the {kind} {str(path)!r} changed since the plan was made; its size did not",
            hint=_REPARTITION,
        )


def _digest_differs(path: Path, file: WeightFile, *, full: bool) -> bool:
    if not full:
        return fingerprint(path) != file.digest
    if not file.full_digest:
        raise InvalidBundleError(
            f"the plan holds only a sampled digest of the weight file {str(path)!r}",
            hint="make the plan with `hetpart partition --verify full` to check every byte",
        )
    return fingerprint(path, full=True) != file.full_digest


def _full(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled(file: BinaryIO, nbytes: int) -> str:
    digest = hashlib.sha256(f"{nbytes} bytes, sampled\n".encode())
    if nbytes <= WHOLE_BYTES:
        digest.update(file.read())
        return digest.hexdigest()
    last = nbytes - BLOCK_BYTES
    for block in range(BLOCKS):
        file.seek(block * last // (BLOCKS - 1))
        digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()
