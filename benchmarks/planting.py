"""Copies of a model that something is added to: a branch from one of its inputs to outputs of its own.

Everything added is called ``planted…``. The model's weights stay where they are: copies refer to them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hetpart.graph.load import read

PREFIX = "planted"
_NUMBERS = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.FLOAT16)
_INPUTS_HOLD_WEIGHTS = 4
"""Before this version of the IR every initializer was an input, too."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A model to plant in, and a folder for the copies. Its files are there under their own names."""

    path: Path
    shape: Mapping[str, int]

    @classmethod
    def of(cls, model: Path, folder: Path, shape: Mapping[str, int]) -> Ground:
        """Its files are copied: what has a second link is refused by ONNX, also for others who read it now."""
        for file in (model, model.with_name(f"{model.name}.data")):
            if file.exists() and not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)
        return cls(folder / model.name, shape)

    def copy(self, name: str) -> Copy:
        """The model, to be changed and written as ``name``."""
        proto = onnx.ModelProto()
        proto.CopyFrom(read(self.path).proto)
        return Copy(proto, self.path.with_name(f"{self.path.stem}-{name}.onnx"))


@dataclass(slots=True)
class Copy:
    """A model with what is planted in it."""

    proto: onnx.ModelProto
    path: Path
    pins: dict[str, str] = field(default_factory=dict[str, str])
    """Devices of planted nodes by name, where they were given one."""

    def write(self) -> Path:
        self.path.write_bytes(self.proto.SerializeToString())
        return self.path

    def node(self, op_type: str, inputs: Sequence[str], *, device: str = "", **attributes: Any) -> str:
        """Add a node of one output, whose name it returns; the node's is the same."""
        name = f"{PREFIX}_{op_type.lower()}_{len(self.proto.graph.node)}"
        self.proto.graph.node.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        if device:
            self.pins[f"node:{name}"] = device
        return name

    def scalar(self) -> str:
        """A float that depends on an input of the model."""
        weights = {tensor.name for tensor in self.proto.graph.initializer}
        given = next(
            value.name
            for value in self.proto.graph.input
            if value.name not in weights and value.type.tensor_type.elem_type in _NUMBERS
        )
        return self.node("ReduceSum", [self.node("Cast", [given], to=TensorProto.FLOAT)], keepdims=0)

    def vector(self, elements: int, device: str = "") -> str:
        """So many floats that depend on an input of the model."""
        sizes = self.weight(np.array([elements], np.int64))
        return self.node("Expand", [self.scalar(), sizes], device=device)

    def weight(self, array: NDArray[Any]) -> str:
        """An initializer in the file itself."""
        return self._initializer(numpy_helper.from_array(array, self._free_name()))

    def outside(self, elements: int, location: str, dims: Sequence[int] | None = None, *, fill: bytes = b"") -> str:
        """Floats in a file of their own: a hole, but for what is to ``fill`` its beginning."""
        with self.path.with_name(location).open("wb") as file:
            file.write(fill)
            file.truncate(4 * elements)
        return self.reference(location, dims or [elements])

    def reference(self, location: str, dims: Sequence[int]) -> str:
        """Floats in a file, there or not."""
        tensor = TensorProto(name=self._free_name(), data_type=TensorProto.FLOAT, dims=dims)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        return self._initializer(tensor)

    def _free_name(self) -> str:
        return f"{PREFIX}_weight_{len(self.proto.graph.initializer)}"

    def _initializer(self, tensor: TensorProto) -> str:
        self.proto.graph.initializer.append(tensor)
        if self.proto.ir_version < _INPUTS_HOLD_WEIGHTS:
            kind = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            self.proto.graph.input.append(kind)
        return tensor.name

    def give(self, name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[int | str] | None = None) -> None:
        """Make ``name`` an output of the model."""
        self.proto.graph.output.append(helper.make_tensor_value_info(name, dtype, shape))

    def take(self, dtype: int, shape: Sequence[int | str]) -> str:
        """A new input of the model."""
        name = f"{PREFIX}_input"
        self.proto.graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def uses(self, domain: str) -> None:
        """Import a set of custom operators."""
        self.proto.opset_import.append(helper.make_opsetid(domain, 1))

    def sum(self, name: str, *, device: str = "") -> str:
        """The sum of a value's elements, an output of the model."""
        total = self.node("ReduceSum", [name], device=device, keepdims=0)
        self.give(total, shape=[])
        return total
