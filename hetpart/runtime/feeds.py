"""Check what a caller feeds."""

from __future__ import annotations

from array import array as array_of_numbers
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hetpart.errors import InvalidFeedError
from hetpart.plan.model import ValueForm, ValueSpec
from hetpart.runtime.dlpack import array_over, from_dlpack, is_ort_value, memory_of
from hetpart.runtime.dtypes import is_builtin, numpy_dtype, session_type
from hetpart.runtime.kept import kept_feed
from hetpart.runtime.values import to_array, to_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetpart.runtime.transport import Memory

_NOWHERE: Mapping[str, Memory] = MappingProxyType({})
_TEXT, _ENCODED = "UOT", "SV"
"""Kinds of NumPy's dtypes whose elements are text, and the bytes of one."""


def checked_feeds(
    specs: Sequence[ValueSpec], feeds: Mapping[str, Any], kept: Mapping[str, Memory] = _NOWHERE
) -> dict[str, Any]:
    """``feeds`` in the form the executor takes: contiguous arrays of the planned dtype and shape.

    Args:
        specs: What is fed.
        feeds: By name.
        kept: Memories that some of them must lie in, by name.

    Raises:
        InvalidFeedError: a name is missing or unknown, or a dtype or shape is not the planned one.
    """
    given = cast("object", feeds)
    if not isinstance(given, Mapping):
        raise InvalidFeedError(f"the feed is {type(feeds).__name__}, not arrays by name", hint="give {name: array, …}")
    if len(feeds) != len(specs) or [spec for spec in specs if spec.name not in feeds]:  # a list costs less than any()
        _refuse_names(specs, feeds)
    return {
        spec.name: kept_feed(spec, feeds[spec.name], kept[spec.name], _checked)
        if spec.name in kept
        else _checked(spec, feeds[spec.name])
        for spec in specs
    }


def feeding(
    specs: Sequence[ValueSpec], kept: Mapping[str, Memory] = _NOWHERE
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """``checked_feeds`` of ``specs``, in less time for arrays that are just what was planned."""
    wanted = [(spec.name, _plain_dtype(spec, kept), spec.shape) for spec in specs]
    number = len(wanted)

    def feeds(given: Mapping[str, Any]) -> dict[str, Any]:
        if given.__class__ is dict and len(given) == number:
            find = given.get
            ready = {
                name: value
                for name, dtype, shape in wanted
                if type(value := find(name)) is np.ndarray
                and value.dtype is dtype
                and value.shape == shape
                and value.flags.c_contiguous
            }
            if len(ready) == number:
                return ready
        return checked_feeds(specs, given, kept)

    return feeds


def _plain_dtype(spec: ValueSpec, kept: Mapping[str, Memory]) -> np.dtype[np.generic] | None:
    """The type of the arrays that an input is fed with as they are; ``None`` where none are."""
    return numpy_dtype(spec.dtype) if spec.form is ValueForm.STATIC and spec.name not in kept else None


def _refuse_names(specs: Sequence[ValueSpec], feeds: Mapping[str, Any]) -> None:
    wanted = {spec.name for spec in specs}
    missing, unknown = sorted(wanted - set(feeds)), sorted(set(feeds) - wanted)
    parts = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
    parts += [f"has unknown {', '.join(map(repr, unknown))}"] if unknown else []
    fixed = "; one that has a default in the model file keeps it" if unknown else ""
    raise InvalidFeedError(
        f"the feed {' and '.join(parts)}",
        hint=f"the inputs are {', '.join(describe(spec) for spec in specs) or 'none'}{fixed}",
    )


def _checked(spec: ValueSpec, given: Any) -> Any:
    if spec.form is ValueForm.OPAQUE:
        return _strings(spec, given) if spec.shape is not None and spec.dtype == "string" else given
    wanted = numpy_dtype(spec.dtype)
    if type(given) is np.ndarray and given.dtype == wanted and given.shape == spec.shape and given.flags.c_contiguous:
        return given
    array = _as_array(spec, given)
    if wanted is None:
        return _packed(spec, array)
    if array.dtype.type is np.void and not is_builtin(spec.dtype) and array.itemsize == wanted.itemsize:
        array = array.view(wanted)  # how .npy files hold the types that NumPy lacks
    if _is_same(array, wanted, given):
        _require_range(spec, array, wanted)
        array = array.astype(wanted, copy=False)
    if array.dtype != wanted:
        raise InvalidFeedError(
            f"input {spec.name!r} has dtype {array.dtype}, planned was {spec.dtype}",
            hint=f"convert it with {_conversion(given, wanted)}",
        )
    _require_shape(spec, array.shape)
    return np.asarray(array, order="C")


def _conversion(given: Any, wanted: np.dtype[Any]) -> str:
    """In the words of the library that ``given`` is of."""
    is_torch = any(kind.__module__.partition(".")[0] == "torch" for kind in type(given).__mro__)
    return f".to(torch.{wanted})" if is_torch else f".astype({str(wanted)!r})"


def _require_shape(spec: ValueSpec, shape: tuple[int, ...]) -> None:
    if not is_shaped(shape, spec):
        raise InvalidFeedError(
            f"input {spec.name!r} has shape {list(shape)}, planned was {_shape_text(spec)}",
            hint="a plan is made for fixed sizes: feed them, or partition again with another --shape",
        )


def _as_array(spec: ValueSpec, given: Any) -> np.ndarray[Any, Any]:
    if type(given) is np.ndarray:
        return given
    if not hasattr(given, "__dlpack__"):
        return _listed(spec, given)
    array = array_over(given)
    if array is not None:
        return array
    value = given if is_ort_value(given) else from_dlpack(spec.name, given)
    if not is_ort_value(value):
        return np.asarray(value)
    if value.data_type() != session_type(spec.dtype):
        raise InvalidFeedError(f"input {spec.name!r} is a {value.data_type()}, planned was {session_type(spec.dtype)}")
    return to_array(spec, value, memory_of(value))


def _listed(spec: ValueSpec, given: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InvalidFeedError(
            f"input {spec.name!r} is no tensor: {error}", hint="every row of a list has as many elements"
        ) from error


def _is_same(array: np.ndarray[Any, Any], wanted: np.dtype[Any], given: Any) -> bool:
    """Whether only the byte order differs, or ``given`` holds Python's numbers, which have no dtype."""
    if isinstance(given, (list, tuple)):
        return np.can_cast(array.dtype, wanted, "same_kind")
    return not array.dtype.isnative and array.dtype.newbyteorder("=") == wanted


def _require_range(spec: ValueSpec, array: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> None:
    """Refuse whole numbers that another size of them would wrap around."""
    if array.dtype.kind not in "iu" or wanted.kind not in "iu" or not array.size:
        return
    least, most, limits = int(array.min()), int(array.max()), np.iinfo(wanted)
    if least < limits.min or most > limits.max:
        raise InvalidFeedError(
            f"input {spec.name!r} has numbers from {least} to {most}, planned was {spec.dtype}",
            hint=f"it holds {limits.min} to {limits.max}",
        )


def taken(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """``feeds`` as ONNX Runtime takes them: tensors of other libraries shared, arrays in this machine's byte order.

    ONNX Runtime takes foreign bytes for numbers of its own.
    """
    other = {name: _taken(name, value) for name, value in feeds.items() if not _is_plain(value)}
    return {**feeds, **other} if other else feeds


def _is_plain(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype.isnative


def _taken(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if isinstance(value, (memoryview, array_of_numbers)):
        return np.asarray(cast("Any", value))
    if isinstance(value, tuple):
        return np.asarray(cast("Any", value)).tolist()
    return from_dlpack(name, value) if hasattr(value, "__dlpack__") and not is_ort_value(value) else value


def boxed(specs: Sequence[ValueSpec], feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """``feeds`` as OrtValues, those that are none checked and made so.

    Raises:
        InvalidFeedError: as ``checked_feeds``.
    """
    if all(map(is_ort_value, feeds.values())):
        return feeds
    checked = checked_feeds(specs, feeds)
    return {spec.name: _boxed(spec, feeds[spec.name], checked[spec.name]) for spec in specs}


def _boxed(spec: ValueSpec, given: Any, checked: Any) -> Any:
    if is_ort_value(given):
        return given
    if spec.form is ValueForm.OPAQUE:
        raise InvalidFeedError(
            f"input {spec.name!r} is no OrtValue, and ONNX Runtime makes none of {spec.dtype or type(given).__name__}",
            hint="feed it to run()",
        )
    return to_value(spec, cast("np.ndarray[Any, Any]", checked))


def _packed(spec: ValueSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.nbytes != spec.nbytes:
        raise InvalidFeedError(
            f"input {spec.name!r} has {array.nbytes} bytes, its {spec.dtype} elements take {spec.nbytes} packed",
            hint="feed the packed bytes as uint8",
        )
    return np.asarray(array, order="C")


def _strings(spec: ValueSpec, given: Any) -> np.ndarray[Any, Any]:
    """What ONNX Runtime takes for strings, as an array of Python's; bytes are the text that they encode."""
    array = np.asarray(given.numpy()) if is_ort_value(given) else _listed(spec, given)
    if array.dtype.kind in _ENCODED:
        array = _decoded(spec, array)
    if array.dtype.kind not in _TEXT:
        raise InvalidFeedError(
            f"input {spec.name!r} has dtype {array.dtype}, planned was string", hint="convert it with .astype(str)"
        )
    _require_shape(spec, array.shape)
    return array.astype(object)


def _decoded(spec: ValueSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        texts = [bytes(item).decode() for item in array.flat]
    except UnicodeDecodeError as error:
        raise InvalidFeedError(
            f"input {spec.name!r} has bytes that are no UTF-8: {error}",
            hint="decode them: np.char.decode(array, ENCODING)",
        ) from error
    return np.array(texts, dtype=object).reshape(array.shape)


def is_shaped(shape: tuple[int, ...], spec: ValueSpec) -> bool:
    """Whether a tensor of ``shape`` is as planned; sizes that only a run tells are any."""
    planned = spec.shape
    return planned is None or (
        len(shape) == len(planned) and all(want in (None, size) for size, want in zip(shape, planned, strict=True))
    )


def _shape_text(spec: ValueSpec) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in spec.shape or ()) + "]"


def describe(spec: ValueSpec) -> str:
    """An input as text: name, dtype and shape."""
    return f"{spec.name!r} {spec.dtype or 'any'}{_shape_text(spec) if spec.shape is not None else ''}"
