"""Models of one op, what it is predicted to take, and the kernels that ONNX Runtime runs it as."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import hetpart

CONTRIB = "com.microsoft"
Given = tuple[tuple[int, ...], str]
"""Sizes and dtype of an input."""


@dataclass(frozen=True, slots=True)
class OneOp:
    """An op with its inputs: sizes and dtypes, or their numbers where they are constants."""

    op_type: str
    inputs: tuple[Given | np.ndarray[Any, Any], ...]
    made: int = 1
    domain: str = ""
    version: int = 23
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    def model(self) -> onnx.ModelProto:
        given, held = list[Any](), list[Any]()
        for place, value in enumerate(self.inputs):
            if isinstance(value, tuple):
                kind = helper.np_dtype_to_tensor_dtype(np.dtype(value[1]))
                given.append(helper.make_tensor_value_info(f"x{place}", kind, value[0]))
            else:
                held.append(numpy_helper.from_array(value, f"x{place}"))
        names, made = [f"x{place}" for place in range(len(self.inputs))], [f"y{place}" for place in range(self.made)]
        node = helper.make_node(self.op_type, names, made, domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node], "g", given, [helper.make_empty_tensor_value_info(name) for name in made], held
        )
        opsets = [helper.make_opsetid("", self.version), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def milliseconds(self) -> float:
        """As predicted on one core of an EPYC 9004 from its built-in profile."""
        costs = hetpart.annotate(self.model(), hardware="l4+epyc-genoa", threads=1)
        return 1e3 * sum(op.seconds[0] for op in costs.ops)

    def kernels(self, folder: Path) -> list[str]:
        """Types of the kernels that ONNX Runtime runs."""
        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        session.run(None, {f"x{i}": np.ones(*value) for i, value in enumerate(self.inputs) if isinstance(value, tuple)})
        events = json.loads(Path(session.end_profiling()).read_bytes())
        return [event["args"]["op_name"] for event in events if event["name"].endswith("_kernel_time")]
