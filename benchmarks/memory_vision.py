# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateImportUsage=false
"""Predicted peak of activations against ONNX Runtime's own arena, on vision models in float32 and quantized.

    python -m benchmarks.memory_vision > benchmarks/results/memory_vision.json
    python -m benchmarks.memory_vision vit dpt --kinds float u8

Architectures are those of ``transformers``, of few layers and with weights drawn by chance. They are quantized by ONNX
Runtime's own tool: activations to uint8, to int8 with weights by channel, or to uint16. Each is planned as one
partition on the host and run three times on one thread, with and without the thrifty sessions of a device that has a
budget.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import onnx
import torch
import transformers as hub
from onnx.external_data_helper import load_external_data_for_model

from benchmarks.measure import ROOT, emit, machine_facts, say
from benchmarks.table import figure, print_table

sys.path.insert(0, str(ROOT))

REACH = 0.05
SIDE = 224
SAMPLES = 2
"""Images that activations are calibrated by."""
MIB = 1 / 2**20
COLUMNS = {
    "model": figure("model"),
    "kind": figure("kind"),
    "thrifty": figure("thrifty"),
    "error": figure("error", "{:+.1%}"),
    "predicted MiB": figure("predicted", "{:.2f}", MIB),
    "measured MiB": figure("measured", "{:.2f}", MIB),
}
_STAGES: Mapping[str, Any] = {"hidden_sizes": [64, 128, 256, 512], "depths": [1, 2, 2, 1]}
_NECK: Mapping[str, Any] = {
    "backbone_out_indices": [0, 1, 2, 3],
    "neck_hidden_sizes": [48, 96, 192, 192],
    "fusion_hidden_size": 64,
}
_BLOCKS: Mapping[str, Any] = {
    "hidden_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 384,
}


def _of(kind: str, head: str, **config: Any) -> Callable[[], torch.nn.Module]:
    return lambda: getattr(hub, f"{kind}For{head}")(getattr(hub, f"{kind}Config")(**config)).eval()


_classifier = partial(_of, head="ImageClassification")
MODELS: Mapping[str, Callable[[], torch.nn.Module]] = {
    "bit": _classifier("Bit", hidden_sizes=[256, 512, 1024, 2048], depths=[1, 1, 1, 1]),
    "convnext": _classifier("ConvNext", depths=[1, 1, 2, 1]),
    "dpt": _of("DPT", "DepthEstimation", image_size=SIDE, is_hybrid=False, **_BLOCKS, **_NECK),
    "mobilenet": _classifier("MobileNetV2", image_size=SIDE),
    "mobilevit": _classifier("MobileViT", image_size=SIDE),
    "regnet": _classifier("RegNet", embedding_size=32, groups_width=16, **_STAGES),
    "resnet": _classifier("ResNet", hidden_sizes=[256, 512, 1024, 2048], depths=[1, 1, 1, 1]),
    "segformer": _of("Segformer", "SemanticSegmentation", depths=[1, 1, 1, 1]),
    "vit": _classifier("ViT", hidden_size=384, num_hidden_layers=2, num_attention_heads=6, intermediate_size=1536),
}
KINDS: Mapping[str, tuple[str, bool] | None] = {
    "float": None, "u8": ("QUInt8", False), "s8": ("QInt8", True), "u16": ("QUInt16", False),
}  # fmt: skip
"""Type of activations, and whether weights are quantized by channel."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one form."""

    model: str
    kind: str
    thrifty: bool
    predicted: int
    measured: int
    error: float


def exported(name: str, folder: Path) -> Path:
    """The float32 model, as PyTorch exports it."""
    path = folder / f"{name}.onnx"
    torch.manual_seed(0)
    image = torch.randn(1, 3, SIDE, SIDE)
    torch.onnx.export(
        MODELS[name](), (image,), str(path), dynamo=True, optimize=False, external_data=False, verbose=False
    )
    return path


def quantized(source: Path, kind: str) -> Path:
    """``source`` as ONNX Runtime's tool quantizes it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            drawn = np.random.default_rng(0)
            self._images = iter([drawn.standard_normal((1, 3, SIDE, SIDE), np.float32) for _ in range(SAMPLES)])

        def get_next(self) -> Any:
            image = next(self._images, None)
            return None if image is None else {given: image}

    told = KINDS[kind]
    assert told is not None
    activations, by_channel = told
    prepared, path = source.with_suffix(".prepared.onnx"), source.with_suffix(f".{kind}.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    given = onnx.load(prepared, load_external_data=False).graph.input[0].name
    quantize_static(
        str(prepared), str(path), Images(), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8,
        activation_type=QuantType[activations], per_channel=by_channel,
    )  # fmt: skip
    return path


def rows(name: str, kind: str, path: Path) -> Iterator[Row]:
    """What is predicted of the session of the whole model, and what its arena says."""
    import hetpart
    from hetpart.plan.cut_models import cut_models
    from tests.cost_model.arenas import measured_peak, predicted_peak, profiled_nodes
    from tests.cost_model.float_models import feeds_of

    plan = hetpart.partition(path, hardware="emulated+generic-2core", placement="all-cpu")
    (model,) = cut_models(plan.imported.proto, plan.plan)
    load_external_data_for_model(model, str(path.parent))
    for thrifty in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            measured = measured_peak(profiled_nodes(model, feeds_of(model), Path(folder), thrifty=thrifty))
        predicted = predicted_peak(model, thrifty=thrifty)
        yield Row(name, kind, thrifty, predicted, measured, predicted / measured - 1)


def measured(names: Sequence[str], kinds: Sequence[str]) -> list[Row]:
    """Rows of all ``names`` in all ``kinds``, the worst first."""
    found: list[Row] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            source = exported(name, Path(folder))
            for kind in kinds:
                say(f"{name} {kind}")
                found += rows(name, kind, source if KINDS[kind] is None else quantized(source, kind))
    return sorted(found, key=lambda row: -abs(row.error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    found = measured(arguments.models or list(MODELS), arguments.kinds)
    print_table(COLUMNS, [asdict(row) for row in found])
    errors = {kept: [abs(row.error) for row in found if row.thrifty is kept] for kept in (True, False)}
    emit(
        "memory_vision",
        {
            "machine": machine_facts(),
            "reach": REACH,
            "worst_thrifty": max(errors[True]),
            "worst": max(errors[False]),
            "mean": mean(errors[True] + errors[False]),
            "beyond_reach": sum(error > REACH for of in errors.values() for error in of),
            "models": [asdict(row) for row in found],
        },
    )


if __name__ == "__main__":
    main()
