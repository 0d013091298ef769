# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeStubs=false
"""Weights that sessions read where they lie: in files, tables of which a run reads rows; anywhere, what several share.

ONNX Runtime maps weight files too, a mapping for every session, and lets the system read ahead: on every row of a cold
table it fetched 32 pages or more, of which it used one. 5,000 rows took 10 s so, and 0.04 s where reading ahead is off.
"""

from __future__ import annotations

import mmap
from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hetpart.devices import Provider
from hetpart.errors import InvalidBundleError
from hetpart.graph.walk import all_nodes
from hetpart.graph.wire import INLINE_LIMIT
from hetpart.runtime.device_weights import DeviceWeights
from hetpart.runtime.dtypes import is_builtin, numpy_dtype
from hetpart.runtime.footprint import FilePart, mapped_spans

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence
    from pathlib import Path

    import onnx
    import onnxruntime

    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Partition

_ROW_READERS = frozenset({"Gather", "GatherND", "GatherElements"})
_LEAST_TABLE = 2**20
"""Bytes from which on a table is read by row."""


@dataclass(slots=True)
class WeightMaps:
    """The files of a folder, each mapped once, and OrtValues over parts of them."""

    folder: Path
    _maps: dict[str, mmap.mmap | None] = field(default_factory=dict[str, "mmap.mmap | None"])
    _values: dict[tuple[Any, ...], Any] = field(default_factory=dict["tuple[Any, ...]", Any])

    def value(self, tensor: onnx.TensorProto, *, by_row: bool) -> onnxruntime.OrtValue | None:
        """The content of a weight in a file; ``None`` where ONNX Runtime has to read it itself, or to refuse it."""
        from hetpart.graph.types import dtype_name
        from hetpart.plan.weights import reference_of

        reference, dtype = reference_of(tensor), dtype_name(tensor.data_type)
        location, offset = reference["location"], int(reference.get("offset", "0"))
        key = location, offset, dtype, tuple(tensor.dims)
        if key not in self._values:
            view = self._view(*key, by_row=by_row)
            self._values[key] = None if view is None else _ort_value(view)
        return self._values[key]

    def _view(
        self, location: str, offset: int, dtype: str, shape: tuple[int, ...], *, by_row: bool
    ) -> np.ndarray[Any, Any] | None:
        kind = numpy_dtype(dtype) if is_builtin(dtype) else None
        mapped = None if kind is None else self._map(location)
        if mapped is None or kind is None or offset + prod(shape) * kind.itemsize > len(mapped):
            return None
        if (
            offset % kind.itemsize
        ):  # no array begins there: what is shared is copied once, and a table is ONNX Runtime's
            whole = None if by_row else mapped[offset : offset + prod(shape) * kind.itemsize]
            return None if whole is None else np.frombuffer(whole, kind).reshape(shape)
        if by_row:
            start = offset // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_RANDOM, start, offset - start + prod(shape) * kind.itemsize)
        return np.frombuffer(mapped, kind, prod(shape), offset).reshape(shape)

    def _map(self, location: str) -> mmap.mmap | None:
        if location not in self._maps:
            path = (self.folder / location).resolve()
            inside = path.is_relative_to(self.folder.resolve()) and path.is_file() and path.stat().st_size
            self._maps[location] = _mapped(path) if inside else None
        return self._maps[location]


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _ort_value(array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def mapped_weights(
    bundle: Bundle, *, emulate: bool, others: Container[str] = ()
) -> list[dict[str, onnxruntime.OrtValue]]:
    """Per partition: the weights that its session is given, by name. They must stay alive as long as it does.

    Args:
        bundle: Of the partitions.
        emulate: Whether accelerator partitions run on the host.
        others: Devices whose sessions are given nothing.

    Raises:
        InvalidBundleError: a partition's file is cut short.
    """
    found: list[dict[str, onnxruntime.OrtValue]] = [{} for _ in bundle.plan.partitions]
    shared = _shared(bundle)
    if not (shared or (bundle.weights is not None and _has_tables(bundle))):
        return found
    maps = None if bundle.weights is None else WeightMaps(bundle.weights)
    inline: dict[tuple[str, str], onnxruntime.OrtValue] = {}
    copies = DeviceWeights()
    for place, partition in enumerate(bundle.plan.partitions):
        device, on_host = partition.device, emulate or bundle.plan.device(partition.device).provider == Provider.CPU
        together = {weight for there, weight in shared if there == device}
        if device in others or not (on_host or together):
            continue
        proto = _parsed(partition, bundle.models[place])
        if maps is not None:
            found[place] |= _in_files(maps, proto, together)
        for name, view in _inline(proto, together):
            found[place][name] = inline.setdefault((device, name), _ort_value(view))
        if not on_host:
            there = {name: copies.value(device, name, found[place][name]) for name in together & found[place].keys()}
            found[place] = {name: value for name, value in there.items() if value is not None}
    return found


def _shared(bundle: Bundle) -> set[tuple[str, str]]:
    """Devices and weights that several partitions use there, the small left out."""
    uses = Counter((partition.device, weight) for partition in bundle.plan.partitions for weight in partition.weights)
    large = {residency.weight for residency in bundle.plan.residencies if residency.nbytes > INLINE_LIMIT}
    return {use for use, number in uses.items() if number > 1 and use[1] in large}


def _has_tables(bundle: Bundle) -> bool:
    """Whether there may be one: reading the models to see takes longer than this."""
    return any(residency.nbytes >= _LEAST_TABLE for residency in bundle.plan.residencies) and any(
        decision.op_type in _ROW_READERS for decision in bundle.plan.decisions
    )


def _parsed(partition: Partition, model: bytes) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load_model_from_string(model)
    except DecodeError as error:
        raise InvalidBundleError(
            f"the bundle is damaged: {partition.file} is no whole model ({error})",
            hint="`hetpart partition` the model again",
        ) from error


def _in_files(maps: WeightMaps, proto: onnx.ModelProto, shared: set[str]) -> dict[str, onnxruntime.OrtValue]:
    values = {tensor.name: maps.value(tensor, by_row=by_row) for tensor, by_row in _wanted(proto, shared)}
    return {name: value for name, value in values.items() if value is not None}


def _wanted(proto: onnx.ModelProto, shared: set[str]) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Weights in files that are shared or read by row, and whether they are that."""
    from hetpart.plan.weights import external_tensors

    nodes = list(all_nodes(proto.graph.node))
    for tensor in external_tensors([proto]):
        by_row = _nbytes(tensor) >= _LEAST_TABLE and _is_table(tensor.name, nodes)
        if tensor.name and (by_row or tensor.name in shared):
            yield tensor, by_row


def _inline(proto: onnx.ModelProto, shared: set[str]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Those of ``shared`` that lie in the model itself, as a graph that was never in a file has them."""
    from hetpart.graph.types import dtype_name

    for tensor in proto.graph.initializer:
        dtype = dtype_name(tensor.data_type)
        kind = numpy_dtype(dtype) if is_builtin(dtype) else None
        if tensor.name in shared and kind is not None and len(tensor.raw_data) == _nbytes(tensor):
            yield tensor.name, np.frombuffer(tensor.raw_data, kind).reshape(tuple(tensor.dims))


def _nbytes(tensor: onnx.TensorProto) -> int:
    from hetpart.graph.types import dtype_name, nbytes_of

    return nbytes_of(dtype_name(tensor.data_type), tensor.dims)


def _is_table(name: str, nodes: Sequence[onnx.NodeProto]) -> bool:
    """Whether all that reads it reads rows of it."""
    readers = [node for node in nodes if name in node.input]
    return bool(readers) and all(
        node.op_type in _ROW_READERS and node.input[0] == name and name not in node.input[1:] for node in readers
    )


def mapped_bytes(bundle: Bundle, given: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Bytes of weights that sessions read where they lie in files, by device.

    Args:
        bundle: What the sessions run. No other may have its files mapped.
        given: What ``mapped_weights`` gave them. What they mapped themselves and still do, the system tells: as many of
            them as there are mappings, those first that read rows of it. Others may have packed or folded it instead.
    """
    folder = bundle.weights
    if folder is None:
        return {}
    ours = {value.data_ptr() for weights in given for value in weights.values()}
    theirs = [span for span in mapped_spans() if not any(map(span.holds, ours))]
    found: set[tuple[str, FilePart]] = set()
    """Where a device reads a weight: two sessions that read one read the same pages."""
    others: dict[FilePart, list[tuple[bool, str]]] = {}
    """Of what sessions may have mapped themselves: whether they read no rows of it, and their devices."""
    for place, partition in enumerate(bundle.plan.partitions):
        proto = _parsed(partition, bundle.models[place])
        by_row = {node.input[0] for node in all_nodes(proto.graph.node) if node.op_type in _ROW_READERS}
        for name, part in _file_parts(proto, folder):
            if name in given[place]:
                found.add((partition.device, part))
            else:
                others.setdefault(part, []).append((name not in by_row, partition.device))
    for part, readers in others.items():
        mappings = sum(span.covers(part) for span in theirs)
        found.update((device, part) for _, device in sorted(readers)[:mappings])
    totals = Counter[str]()
    for device, part in found:
        totals[device] += part.nbytes
    return totals


def _file_parts(proto: onnx.ModelProto, folder: Path) -> Iterator[tuple[str, FilePart]]:
    """Names of the weights in files, and where they are."""
    from hetpart.plan.weights import external_tensors, reference_of

    for tensor in external_tensors([proto]):
        reference = reference_of(tensor)
        path = str((folder / reference["location"]).resolve())
        yield tensor.name, FilePart(path, int(reference.get("offset", "0")), _nbytes(tensor))
