"""A bundle: a folder with ``plan.json`` and one ONNX file per partition, weights referenced where they are.

It is written beside its final place and renamed into it: what stands there is whole, or what stood there before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hetpart.errors import HetpartError, InvalidBundleError
from hetpart.plan.fingerprint import verify_files
from hetpart.plan.io import read_plan, write_plan
from hetpart.plan.weights import gather_weights, weight_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnx

    from hetpart.plan.model import Plan

PLAN_FILE = "plan.json"
BUNDLE_SUFFIX = ".hetpart"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened bundle: everything is there and unchanged."""

    plan: Plan
    models: tuple[bytes, ...]
    """Serialized ONNX model of every partition."""
    weights: Path | None
    """Folder that the models' external references are relative to."""


def write_bundle(path: Path, plan: Plan, models: Iterable[onnx.ModelProto], *, self_contained: bool = False) -> Path:
    """Write a bundle to ``path``, replacing a bundle that is there.

    Args:
        path: The bundle's folder.
        plan: Its ``model.folder`` is absolute.
        models: One per partition, in order.
        self_contained: Copy the weights that are used into the bundle.

    Raises:
        InvalidBundleError: something that is not a bundle is in the way.
        HetpartError: the disk is full, or the place cannot be written.
    """
    _refuse_other(path)
    staging: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        _fill(staging, path, plan, models, self_contained=self_contained)
        _replace(staging, path)
    except OSError as error:
        raise HetpartError(
            f"cannot write the bundle {path}: {error.strerror or error}",
            hint="free some space or choose another place with -o; nothing half-written was left",
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
    return path


def _refuse_other(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not (path / PLAN_FILE).is_file()):
        raise InvalidBundleError(
            f"{path} exists and is not a hetpart bundle", hint="remove it, or choose another place with -o"
        )


def _fill(staging: Path, path: Path, plan: Plan, models: Iterable[onnx.ModelProto], *, self_contained: bool) -> None:
    protos = list(models)
    source = Path(plan.model.folder) if plan.model.folder else None
    if self_contained and source is not None:
        gather_weights(protos, source, staging)
        full = any(file.full_digest for file in plan.model.files)
        plan = replace(plan, model=replace(plan.model, folder="", files=weight_files(protos, staging, full=full)))
    elif source is not None:
        plan = replace(plan, model=replace(plan.model, folder=_relative(source, path)))
    for partition, proto in zip(plan.partitions, protos, strict=True):
        _write(staging / partition.file, proto.SerializeToString(deterministic=True))
    _write(staging / PLAN_FILE, write_plan(plan))
    staging.chmod(0o755)


def _relative(folder: Path, bundle: Path) -> str:
    try:
        return os.path.relpath(folder.resolve(), bundle.resolve())
    except ValueError:
        return str(folder.resolve())


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace(staging: Path, path: Path) -> None:
    """Put ``staging`` at ``path``; on failure what was there is there again."""
    if not path.exists():
        staging.rename(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent)) / "bundle"
    try:
        path.rename(old)
        try:
            staging.rename(path)
        except OSError:
            with suppress(OSError):
                old.rename(path)
            raise
    finally:
        shutil.rmtree(old.parent, ignore_errors=True)


def open_bundle(path: Path, *, verify_full: bool = False) -> Bundle:
    """Read a bundle and check that its weight files are those the plan was made for.

    Raises:
        InvalidBundleError: it is incomplete, of another version, or its weights moved or changed.
    """
    plan_file = path / PLAN_FILE
    if not plan_file.is_file():
        raise InvalidBundleError(
            f"{path} is not a bundle: it has no {PLAN_FILE}", hint="make one with `hetpart partition MODEL -o BUNDLE`"
        )
    plan = read_plan(plan_file.read_bytes(), str(plan_file))
    models = tuple(_read_model(path / partition.file) for partition in plan.partitions)
    return Bundle(plan, models, _weights_folder(plan, path, verify_full=verify_full))


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidBundleError(
            f"the bundle lacks {path.name}: {error.strerror}", hint="partition the model again"
        ) from error


def _weights_folder(plan: Plan, bundle: Path, *, verify_full: bool) -> Path | None:
    """The weights' folder: beside the bundle as it was, else where the model was, whichever holds the files."""
    if not plan.model.files:
        return None
    places = [(bundle / plan.model.folder)]
    if plan.model.path and plan.model.folder:
        places.append(Path(plan.model.path).parent)
    found = next((place for place in places if all((place / f.path).is_file() for f in plan.model.files)), None)
    if found is None:
        names = ", ".join(file.path for file in plan.model.files[:3])
        raise InvalidBundleError(
            f"the weights of {bundle} ({names}) are not in {' nor in '.join(str(p) for p in places)}",
            hint="put the model's files back, partition again, or use --self-contained when partitioning",
        )
    verify_files(found, plan.model.files, full=verify_full)
    return found.resolve()
