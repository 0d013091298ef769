"""A bundle: a folder with ``plan.json`` and one ONNX file per partition, weights referenced where they are.

It is written beside its final place and renamed into it: what stands there is whole, or what stood there before.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetpart.errors import HetpartError, InvalidBundleError
from hetpart.plan.fingerprint import verify_files
from hetpart.plan.io import PLAN_FILE, is_plan, load_plan, write_plan
from hetpart.plan.streamed import streamed_weights
from hetpart.plan.swap import put_in_place
from hetpart.plan.weights import GATHERED_FILE, gather_weights, weight_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx

    from hetpart.plan.model import Plan

STREAMED_FILE = "streamed.onnx"
_BUNDLE_FILE = re.compile(
    rf"{re.escape(PLAN_FILE)}|partition-\d+\.onnx|{re.escape(STREAMED_FILE)}|{re.escape(GATHERED_FILE)}"
)
_STAGING_PREFIX = ".hetpart-"
_NAMES_SHOWN = 3
_MAKE_ONE = "make one with `hetpart partition MODEL -o BUNDLE`"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened bundle: everything is there and unchanged."""

    plan: Plan
    models: tuple[bytes, ...]
    """Serialized ONNX model of every partition."""
    weights: Path | None
    """Folder that the models' external references are relative to."""
    streamed: bytes | None = None
    """Serialized ONNX model that returns the weights the plan streams; ``None`` where it streams none."""
    lent: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Weights that lie in no file, by name: tensors of whoever runs the bundle, read where they lie."""


def write_bundle(
    path: Path,
    plan: Plan,
    models: Iterable[onnx.ModelProto],
    *,
    streamed: onnx.ModelProto | None = None,
    self_contained: bool = False,
) -> Path:
    """Write a bundle to ``path``, replacing a bundle that is there.

    Args:
        path: The bundle's folder.
        plan: Its ``model.folder`` is absolute.
        models: One per partition, in order.
        streamed: The model of the weights that the plan streams.
        self_contained: Copy the weights that are used into the bundle.

    Raises:
        InvalidBundleError: something that is not a bundle is in the way, or holds the model; or weights changed since
            the plan was made.
        HetpartError: the disk is full, or the place cannot be written.
    """
    target = path.absolute()
    staging: Path | None = None
    try:
        _refuse_other(target, path)
        _refuse_own_source(target, path, plan)
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=target.parent))
        new, old = staging / "new", staging / "old"
        new.mkdir()  # in here, for the permissions that the user's umask gives
        _fill(new, target, plan, [*models, *([] if streamed is None else [streamed])], self_contained=self_contained)
        put_in_place(new, target, old)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        kept = staging / "old" if staging is not None else target
        raise HetpartError(
            f"cannot write the bundle {path}: {error.strerror or error}",
            hint=f"the bundle that was there is now {kept}"
            if kept != target and kept.exists()
            else "free some space or choose another place with -o; nothing half-written was left",
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging / "new", ignore_errors=True)
            with suppress(OSError):
                staging.rmdir()  # it stays where it holds an old bundle that could not be put back
    return path


def _refuse_other(target: Path, path: Path) -> None:
    """A bundle is replaced, all else stays: a folder is a bundle where nothing but a bundle's files lie in it."""
    if not target.exists() and not target.is_symlink():
        return
    reason = _why_no_bundle(target)
    if reason:
        raise InvalidBundleError(
            f"{path} exists and is not a hetpart bundle: {reason}", hint="remove it, or choose another place with -o"
        )


def _why_no_bundle(target: Path) -> str:
    if target.is_symlink():
        return "it is a link"
    if not target.is_dir():
        return "it is a file"
    names = sorted(entry.name for entry in target.iterdir())
    if PLAN_FILE not in names:
        return f"it has no {PLAN_FILE}"
    strangers = [name for name in names if not _BUNDLE_FILE.fullmatch(name)]
    if strangers:
        return f"it holds {', '.join(map(repr, strangers[:_NAMES_SHOWN]))}"
    return "" if is_plan((target / PLAN_FILE).read_bytes()) else f"its {PLAN_FILE} is something else"


def _refuse_own_source(target: Path, path: Path, plan: Plan) -> None:
    """Where the model lies in the bundle that would be replaced, replacing it would lose the model."""
    sources = [Path(text).resolve() for text in (plan.model.path, plan.model.folder) if text]
    if any(source.is_relative_to(target.resolve()) for source in sources):
        raise InvalidBundleError(
            f"{path} holds the model {plan.model.path or plan.model.name} that it would be made from",
            hint="choose another place with -o",
        )


def _fill(new: Path, target: Path, plan: Plan, models: Iterable[onnx.ModelProto], *, self_contained: bool) -> None:
    protos = list(models)
    source = Path(plan.model.folder) if plan.model.folder else None
    if self_contained and source is not None:
        verify_files(source, plan.model.files)
        gather_weights(protos, source, new)
        full = any(file.full_digest for file in plan.model.files)
        plan = replace(plan, model=replace(plan.model, folder="", files=weight_files(protos, new, full=full)))
    elif source is not None:
        plan = replace(plan, model=replace(plan.model, folder=_relative(source, target)))
    files = [partition.file for partition in plan.partitions] + ([STREAMED_FILE] if streamed_weights(plan) else [])
    for file, proto in zip(files, protos, strict=True):
        _write(new / file, proto.SerializeToString(deterministic=True))
    _write(new / PLAN_FILE, write_plan(plan))


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


def open_bundle(path: Path, *, verify_full: bool = False) -> Bundle:
    """Read a bundle and check that its weight files are those the plan was made for.

    Raises:
        InvalidBundleError: it is incomplete, of another version, or its weights moved or changed.
    """
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise InvalidBundleError(f"the bundle {path} {what}", hint=_MAKE_ONE)
    plan = load_plan(path)
    models = partition_models(path, plan)
    streamed = _read_model(path / STREAMED_FILE) if streamed_weights(plan) else None
    return Bundle(plan, models, _weights_folder(plan, path, verify_full=verify_full), streamed)


def partition_models(path: Path, plan: Plan) -> tuple[bytes, ...]:
    """The serialized model of every partition in the bundle at ``path``, whose plan is ``plan``.

    Raises:
        InvalidBundleError: one is not there.
    """
    return tuple(_read_model(path / partition.file) for partition in plan.partitions)


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidBundleError(
            f"the bundle lacks {path.name}: {error.strerror}", hint="partition the model again"
        ) from error


def _weights_folder(plan: Plan, bundle: Path, *, verify_full: bool) -> Path | None:
    """The weights' folder: beside the bundle as it was, else where the model was; the first with unchanged files."""
    if not plan.model.files:
        return None
    places = [bundle / plan.model.folder]
    if plan.model.path and plan.model.folder:
        places.append(Path(plan.model.path).parent)
    candidates = [place for place in places if all((place / file.path).is_file() for file in plan.model.files)]
    if not candidates:
        names = ", ".join(file.path for file in plan.model.files[:_NAMES_SHOWN])
        raise InvalidBundleError(
            f"the weights of {bundle} ({names}) are not in {' nor in '.join(str(p) for p in places)}",
            hint="put the model's files back, partition again, or use --self-contained when partitioning",
        )
    *others, last = candidates
    for place in others:
        with suppress(InvalidBundleError):
            verify_files(place, plan.model.files, full=verify_full)
            return place.resolve()
    verify_files(last, plan.model.files, full=verify_full)
    return last.resolve()
