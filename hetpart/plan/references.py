"""What a plan says of the model and the machine that it is for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from hetpart.plan.fingerprint import describe_file
from hetpart.plan.model import MachineReference, ModelReference
from hetpart.plan.weights import weight_files

if TYPE_CHECKING:
    from hetpart.devices import Machine
    from hetpart.graph.from_onnx import ImportedModel


def model_reference(imported: ImportedModel, *, full: bool = False) -> ModelReference:
    """The model as it is now, its weight files fingerprinted; all their bytes read where ``full``."""
    folder, path = imported.folder, imported.path
    files = () if folder is None else weight_files([imported.proto], folder, full=full)
    return ModelReference(
        name=imported.name,
        path=str(path.absolute()) if path else "",
        folder=str(folder.absolute()) if folder and files else "",
        files=files,
        opset=imported.graph.opset,
        ops=len(imported.graph.ops),
        weight_bytes=sum(weight.nbytes for weight in imported.graph.weights),
        dimensions=dict(imported.graph.dimensions),
        sources=() if path is None else (describe_file(path.parent, path.name, full=full), *files),
    )


def machine_reference(machine: Machine) -> MachineReference:
    """The machine's name and a digest of its figures."""
    figures = {"devices": [asdict(d) for d in machine.devices], "links": [asdict(link) for link in machine.links]}
    digest = hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()
    return MachineReference(machine.name, machine.origin, digest)
