"""The real models hetpart is shown on, with seeded random weights.

    python benchmarks/zoo.py --list
    python benchmarks/zoo.py bert-base gpt2 -o build/zoo [--verify]

A model that is already in the folder is kept as it is.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FOLDER = ROOT / "build" / "zoo"


@dataclass(frozen=True, slots=True)
class ZooModel:
    """How to build a model, and what a run of it needs to know."""

    builder: str
    """``module:function``; imported only when the model is built."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shape: Mapping[str, int] = field(default_factory=dict[str, int])
    """Numbers for the symbolic dimensions."""
    ranges: Mapping[str, int] = field(default_factory=dict[str, int])
    """Exclusive upper bound of what each integer input may hold."""
    states: tuple[tuple[str, str], ...] = ()
    """Graph inputs and the graph outputs that hold their new content."""

    @property
    def needs_torch(self) -> bool:
        return self.builder.startswith("benchmarks.models.exported:")

    def build(self, path: Path) -> None:
        """Writes the model to ``path`` and large weights beside it."""
        module, function = self.builder.split(":")
        getattr(importlib.import_module(module), function)(path, **self.options)


def _light(source: str) -> ZooModel:
    return ZooModel("benchmarks.models.light:build", {"source": source})


def _exported(family: str, shape: Mapping[str, int], ranges: Mapping[str, int], **config: Any) -> ZooModel:
    layers = range(config.get("n_layer", 12) if family == "gpt2" else 0)
    states = tuple((f"{kind}_cache.{i}", f"{kind}_cache_out.{i}") for kind in ("key", "value") for i in layers)
    return ZooModel("benchmarks.models.exported:build", {"family": family, **config}, shape, ranges, states=states)


_SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256}
_SMALL_GPT2 = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 128, "vocab_size": 1000}
_SMALL_GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
_SMALL_WHISPER = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_source_positions": 100, "max_target_positions": 64,
    "vocab_size": 1000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
_TEXT = {"batch": 1, "seq": 128}
_TOKENS = {"tokens": 64}
_WIDE_AND_DEEP = "examples.wide_and_deep:build"
_DLRM = "benchmarks.models.dlrm:build"
_MOE = "benchmarks.models.moe:build"
_CONTROL_FLOW = "benchmarks.models.control_flow:build"

ZOO: Mapping[str, ZooModel] = {
    "wide-and-deep": ZooModel(_WIDE_AND_DEEP, {"vocabulary": 200_000}, {"batch": 256}, {"ids": 200_000}),
    "dlrm": ZooModel(_DLRM, {}, {"batch": 128}, {"ids": 3}),
    "resnet50": _light("resnet50"),
    "densenet121": _light("densenet121"),
    "inception-v1": _light("inception_v1"),
    "inception-v2": _light("inception_v2"),
    "shufflenet": _light("shufflenet"),
    "bert-base": _exported("bert", _TEXT, {"input_ids": 30_522, "attention_mask": 2}),
    "gpt2": _exported("gpt2", {"batch": 1, "seq": 1, "context": 1024}, {"input_ids": 50_257, "positions": 1024}),
    "whisper": _exported("whisper", {"batch": 1, "seq": 16}, {"decoder_input_ids": 51_865}),
    "vit-base": _exported("vit", {"batch": 1}, {}),
    "moe": ZooModel(_MOE, {}, _TOKENS),
    "moe-dense": ZooModel(_MOE, {"dense": True}, _TOKENS),
    "control-flow": ZooModel(_CONTROL_FLOW, {}, {"batch": 8}, {"steps": 4}),
    "wide-and-deep-tiny": ZooModel(
        _WIDE_AND_DEEP, {"vocabulary": 5_000, "layers": (128, 64, 1)}, {"batch": 8}, {"ids": 5_000}
    ),
    "dlrm-tiny": ZooModel(_DLRM, {"rows_cap": 1_000}, {"batch": 8}, {"ids": 3}),
    "bert-tiny": _exported(
        "bert", {"batch": 2, "seq": 16}, {"input_ids": 1_000, "attention_mask": 2}, vocab_size=1_000, **_SMALL
    ),
    "gpt2-tiny": _exported(
        "gpt2", {"batch": 1, "seq": 1, "context": 128}, {"input_ids": 1_000, "positions": 128}, **_SMALL_GPT2
    ),
    "whisper-tiny": _exported("whisper", {"batch": 1, "seq": 8}, {"decoder_input_ids": 1_000}, **_SMALL_WHISPER),
    "vit-tiny": _exported("vit", {"batch": 2}, {}, image_size=64, **_SMALL),
    "moe-tiny": ZooModel(_MOE, {"layers": 2, "experts": 4, "hidden": 64, "inner": 128}, _TOKENS),
    "moe-dense-tiny": ZooModel(_MOE, {"layers": 2, "experts": 4, "hidden": 64, "inner": 128, "dense": True}, _TOKENS),
    "control-flow-tiny": ZooModel(_CONTROL_FLOW, {"hidden": 16}, {"batch": 2}, {"steps": 4}),
}
"""Every model by name. Those that end in ``-tiny`` are for tests: the same graphs, built in seconds."""


def prepare(name: str, folder: Path = DEFAULT_FOLDER) -> Path:
    """Path of the model in ``folder``; builds it first where it is absent. A build that fails leaves nothing."""
    return built(ZOO[name], folder / f"{name}.onnx")


def built(model: ZooModel, path: Path) -> Path:
    """``path``; builds ``model`` there first where nothing is. A build that fails leaves nothing."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as unfinished:
        model.build(Path(unfinished) / path.name)
        for file in sorted(Path(unfinished).iterdir(), key=lambda file: file.suffix == ".onnx"):
            shutil.move(file, path.parent / file.name)  # the model last: where it stands, its weights do too
    return path


def random_feeds(name: str, path: Path, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """Seeded feeds for a run of the model, with its symbolic dimensions at the zoo's numbers."""
    import numpy as np
    import onnx

    model = ZOO[name]
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray[np.generic]] = {}
    for value in onnx.load(path, load_external_data=False).graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [model.shape[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = rng.integers(0, model.ranges[value.name], shape) if dtype.kind == "i" else rng.standard_normal(shape)
        feeds[value.name] = np.asarray(drawn, dtype)
    return feeds


def verify(name: str, path: Path) -> None:
    """Runs the model once in ONNX Runtime on the CPU. Raises AssertionError where an output is not finite."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    results = session.run(None, random_feeds(name, path))
    for output, result in zip(session.get_outputs(), results, strict=True):
        assert np.isfinite(result).all(), f"{name}: {output.name} is not finite"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to build; see --list")
    parser.add_argument("-o", "--output", type=Path, default=DEFAULT_FOLDER, metavar="FOLDER")
    parser.add_argument("--list", action="store_true", help="print every name with the dimensions to bind")
    parser.add_argument("--verify", action="store_true", help="run each once in ONNX Runtime")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(ZOO))
    if unknown:
        parser.error(f"no model called {', '.join(unknown)}; --list prints what there is")
    if arguments.list or not arguments.names:
        _print_list()
    for name in arguments.names:
        path = prepare(name, arguments.output)
        if arguments.verify:
            verify(name, path)
        print(f"{path}  {_size(path) / 1e6:,.1f} MB", flush=True)


def _print_list() -> None:
    for name, model in ZOO.items():
        shape = ",".join(f"{dimension}={size}" for dimension, size in model.shape.items())
        print(
            f"{name:20} {f'--shape {shape}' if shape else '':32} {'needs torch' if model.needs_torch else ''}".rstrip()
        )


def _size(path: Path) -> int:
    data = path.with_name(path.name + ".data")
    return path.stat().st_size + (data.stat().st_size if data.exists() else 0)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
