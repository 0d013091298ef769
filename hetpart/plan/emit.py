# pyright: reportUnknownMemberType=false
"""A plan for others to run: as one model that ONNX Runtime places by annotations, or as stages with a manifest."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import onnx

from hetpart.devices import HOST
from hetpart.errors import HetpartError, InvalidBundleError
from hetpart.graph.calls import is_called
from hetpart.graph.types import element_type
from hetpart.plan.bundle import STREAMED_FILE
from hetpart.plan.streamed import streamed_weights
from hetpart.plan.weights import GATHERED_FILE, external_tensors, gather_weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Plan, ValueSpec

ANNOTATION = "layer_ann"
"""What ONNX Runtime from 1.25 on reads of a node's metadata."""
LAYERS, WEIGHTS_FOLDER = "session.layer_assignment_settings", "session.model_external_initializers_file_folder_path"
MANIFEST_FILE, OPTIONS_SUFFIX = "manifest.json", ".options.json"
RESOURCES = "session.resource_cuda_partitioning_settings"
"""Kilobytes of the CUDA provider, and a file of statistics, which may be left out from ONNX Runtime 1.25 on."""
_KILOBYTE = 1024
_HOST_LAYER, _ACCELERATOR_LAYER = "hetpart_host", "hetpart_accelerator"


def whole_model(bundle: Bundle) -> onnx.ModelProto:
    """The model that the partitions were cut from, its dimensions bound, every node annotated with where it belongs."""
    _require_no_calls(bundle)
    parts = [onnx.load_model_from_string(model) for model in bundle.models]
    plan, whole = bundle.plan, onnx.ModelProto()
    if bundle.streamed is not None:
        streamed = onnx.load_model_from_string(bundle.streamed)
        for node in streamed.graph.node:
            node.metadata_props.add(key=ANNOTATION, value=_ACCELERATOR_LAYER)
        _join(whole, streamed)
    for partition, part in zip(plan.partitions, parts, strict=True):
        layer = _HOST_LAYER if partition.device == plan.devices[HOST].device else _ACCELERATOR_LAYER
        for node in part.graph.node:
            node.metadata_props.add(key=ANNOTATION, value=layer)
        _join(whole, part)
    for returned, given in plan.passthrough.items():
        node = whole.graph.node.add(op_type="Identity", input=[given], output=[returned], name=f"return {returned}")
        node.metadata_props.add(key=ANNOTATION, value=_HOST_LAYER)
    known = {value.name: value for part in parts for value in (*part.graph.input, *part.graph.output)}
    whole.graph.input.extend(_described(spec, known) for spec in plan.inputs)
    whole.graph.output.extend(_described(spec, known) for spec in plan.outputs)
    whole.graph.name = whole.graph.name.rpartition("/")[0]
    return whole


def _require_no_calls(bundle: Bundle) -> None:
    called = [part for part, model in zip(bundle.plan.partitions, bundle.models, strict=True) if is_called(model)]
    if called:
        raise HetpartError(
            f"{called[0].ops[0]!r} runs in PyTorch, and ONNX Runtime alone cannot run the plan",
            hint="run the bundle with hetpart.Session, a session a partition",
        )


def _join(whole: onnx.ModelProto, part: onnx.ModelProto) -> None:
    """Add what ``part`` holds, but for what another part brought: weights, what is made of them, types of values."""
    if not whole.graph.name:
        whole.CopyFrom(part)
        for field in ("input", "output"):
            whole.graph.ClearField(field)
        return
    weights = {tensor.name for tensor in whole.graph.initializer}
    values = {value.name for value in whole.graph.value_info}
    made = {name for node in whole.graph.node for name in node.output if name}  # "" is an output that is left out
    whole.graph.node.extend(node for node in part.graph.node if made.isdisjoint(node.output))
    whole.graph.initializer.extend(tensor for tensor in part.graph.initializer if tensor.name not in weights)
    whole.graph.value_info.extend(value for value in part.graph.value_info if value.name not in values)


def _described(spec: ValueSpec, known: dict[str, onnx.ValueInfoProto]) -> onnx.ValueInfoProto:
    if spec.name in known:
        return known[spec.name]
    return onnx.helper.make_tensor_value_info(spec.name, element_type(spec.dtype), list(spec.shape or ()))


def annotated_options(bundle: Bundle) -> dict[str, str]:
    """The configuration entries with which one session of ``whole_model`` runs the plan."""
    kinds = {use.device.partition(":")[0] for use in bundle.plan.devices[1:]}
    rules = [f"{kind}(={_ACCELERATOR_LAYER})" for kind in sorted(kinds)]
    entries = {LAYERS: "; ".join([*rules, f"cpu(={_HOST_LAYER})"])}
    return entries if bundle.weights is None else entries | {WEIGHTS_FOLDER: str(bundle.weights)}


def budget_options(bundle: Bundle) -> dict[str, str]:
    """The entries with which one session of ``whole_model`` fills the accelerator by ONNX Runtime's own rule."""
    budgets = [use.budget_bytes for use in bundle.plan.devices[1:] if use.budget_bytes is not None]
    kilobytes = f"{min(budgets) // _KILOBYTE}" if budgets else ""  # without a number it takes what is free
    entries = {RESOURCES: f"{kilobytes},"}
    return entries if bundle.weights is None else entries | {WEIGHTS_FOLDER: str(bundle.weights)}


def emit_annotated(bundle: Bundle, path: Path, *, self_contained: bool) -> list[Path]:
    """Write the annotated model to ``path``, and beside it what a session needs to know.

    Raises:
        InvalidBundleError: something is there already.
    """
    options = path.with_name(path.name + OPTIONS_SUFFIX)
    _require_free([path, options])
    model, entries = whole_model(bundle), annotated_options(bundle)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path, options]
    if self_contained and bundle.weights is not None:
        entries.pop(WEIGHTS_FOLDER)
        written += _gathered([model], bundle.weights, path.parent)
    path.write_bytes(model.SerializeToString(deterministic=True))
    providers = [use.provider for use in (*bundle.plan.devices[1:], bundle.plan.devices[HOST])]
    described = {"onnxruntime": ">=1.25", "providers": list(dict.fromkeys(providers)), "session_config": entries}
    options.write_text(json.dumps(described, indent=2) + "\n")
    return written


def emit_stages(bundle: Bundle, folder: Path) -> list[Path]:
    """Write every partition as a model of its own, the weights beside them, and how they belong together.

    Raises:
        InvalidBundleError: something is there already.
    """
    _require_no_calls(bundle)
    _require_free([folder])
    folder.mkdir(parents=True)
    try:
        parts = [*bundle.models, *([] if bundle.streamed is None else [bundle.streamed])]
        models = [onnx.load_model_from_string(model) for model in parts]
        written = [] if bundle.weights is None else _gathered(models, bundle.weights, folder)
        files = [partition.file for partition in bundle.plan.partitions] + [STREAMED_FILE] * (
            len(models) > len(bundle.models)
        )
        for file, model in zip(files, models, strict=True):
            written.append(folder / file)
            written[-1].write_bytes(model.SerializeToString(deterministic=True))
        manifest = folder / MANIFEST_FILE
        manifest.write_text(json.dumps(_manifest(bundle.plan), indent=2) + "\n")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return [*written, manifest]


def _gathered(models: Sequence[onnx.ModelProto], source: Path, target: Path) -> list[Path]:
    if not any(True for _ in external_tensors(models)):
        return []
    _require_free([target / GATHERED_FILE])
    try:
        gather_weights(models, source, target)
    except OSError as error:
        raise HetpartError(
            f"cannot write the weights to {target}: {os.strerror(error.errno or 0)}", hint="free some space"
        ) from error
    return [target / GATHERED_FILE]


def _require_free(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists() or path.is_symlink():
            raise InvalidBundleError(f"{path} exists", hint="remove it, or choose another place with -o")


def _manifest(plan: Plan) -> dict[str, Any]:
    specs = {spec.name: spec for spec in (*plan.inputs, *plan.outputs, *plan.values)}
    used = sorted({name for partition in plan.partitions for name in (*partition.inputs, *partition.outputs)})
    providers = {use.device: use.provider for use in plan.devices}
    return {
        "schema": "hetpart.stages",
        "version": 1,
        "inputs": [spec.name for spec in plan.inputs],
        "outputs": [spec.name for spec in plan.outputs],
        "passthrough": plan.passthrough,
        "states": plan.states,
        "homes": plan.homes,
        "granted": asdict(plan.granted),
        "streamed": {"file": STREAMED_FILE, "weights": streamed_weights(plan)} if streamed_weights(plan) else None,
        "values": {name: {"dtype": specs[name].dtype, "shape": specs[name].shape} for name in used},
        "stages": [
            {
                "file": partition.file,
                "device": partition.device,
                "provider": providers[partition.device],
                "inputs": partition.inputs,
                "outputs": partition.outputs,
                "predicted_seconds": partition.seconds,
            }
            for partition in plan.partitions
        ],
        "copies": [asdict(transfer) for transfer in plan.transfers],
    }
