"""The contract between deciding and doing: frozen records that say what runs where, in which order, and why.

Bytes are integers, seconds floats. Nothing here depends on how a plan was found: who reads one needs no solver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hetpart.graph.granted import Granted
from hetpart.plan.figures import Baseline, Certificate, DeviceUse, Prediction
from hetpart.plan.timeline import Timeline

PLAN_SCHEMA = "hetpart.plan"
PLAN_VERSION = 1
"""A change of version breaks readers."""
PLAN_REVISION = 1
"""A revision only adds."""


class ResidencyState(StrEnum):
    """How a weight is held for the ops of one device."""

    RESIDENT = "resident"
    """In the accelerator's memory from load to close."""
    STREAMED = "streamed"
    """Copied to the accelerator in every run."""
    HOST = "host"


class ValueForm(StrEnum):
    """How the runtime carries a value between partitions."""

    STATIC = "static"
    """A tensor whose size is known: it lives in a planned buffer."""
    DYNAMIC = "dynamic"
    """A tensor whose size only a run can tell: ONNX Runtime allocates it."""
    OPAQUE = "opaque"
    """Strings, sequences, optionals: passed by reference, on the host only."""


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A file that holds weights, as it was when the plan was made."""

    path: str
    """Relative to the model's folder."""
    nbytes: int
    digest: str
    """SHA-256 over the size and sampled blocks (``hetpart.plan.fingerprint``)."""
    full_digest: str = ""
    """SHA-256 over all of it, where the user asked for that."""


@dataclass(frozen=True, slots=True)
class ModelReference:
    """The model a plan was made for, and where its weights lie."""

    name: str
    path: str
    """The model file as it was named; ``""`` for a model that was in memory."""
    folder: str
    """Folder of the weight files: absolute, or relative to the bundle; ``""`` where the bundle holds all weights."""
    files: tuple[WeightFile, ...]
    opset: int
    ops: int
    weight_bytes: int
    dimensions: dict[str, int]
    sources: tuple[WeightFile, ...] = ()
    """The model file, under its name alone, and its weight files, as they were: what ``--check`` compares with. Empty
    for a model that was in memory. A run needs none of them where the bundle holds all weights."""


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """A value at the border of a partition or of the model."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    nbytes: int
    form: ValueForm
    range: int | None = None
    """For an integer input that indexes a table: exclusive upper bound of its entries; 1 for the bounds of bags."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Ops of one device that run as one ONNX Runtime session."""

    id: int
    device: str
    ops: tuple[str, ...]
    inputs: tuple[str, ...]
    host_inputs: tuple[str, ...]
    """The inputs that every kernel of the partition reads from host memory: bound there, never copied."""
    outputs: tuple[str, ...]
    host_outputs: tuple[str, ...]
    """The outputs that their kernels leave in host memory."""
    weights: tuple[str, ...]
    """Weights and derived weights it holds."""
    seconds: float
    """Predicted, launches included, copies not."""
    weight_bytes: int
    peak_bytes: int
    """Most activation bytes alive inside it at once, inputs and outputs not counted."""

    @property
    def file(self) -> str:
        """Name of its ONNX file in the bundle."""
        return f"partition-{self.id:03d}.onnx"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A value copied from one device to another, once however many use it there."""

    value: str
    source: str
    target: str
    nbytes: int
    seconds: float
    step: int
    """The copy is done before the partition at this place in the order; after the last one where it equals their
    number. To the host as soon as the value exists, to an accelerator just before the first use."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A place in a device's arena that holds a crossing value of known size, shared with others at other times."""

    value: str
    device: str
    offset: int
    nbytes: int
    first: int
    """Steps between which it is held, both inclusive."""
    last: int


@dataclass(frozen=True, slots=True)
class Residency:
    """Where a weight is held. A weight used on two devices has one record for each."""

    weight: str
    device: str
    state: ResidencyState
    nbytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Why an op is where it is."""

    op: str
    op_type: str
    scope: str
    device: str
    partition: int
    reason: str
    seconds: dict[str, float]
    """Predicted seconds on each device that has a kernel for it."""
    flops: float
    bytes_moved: int
    """Read and written on its device, without what fusion saves there."""
    weight_bytes: int
    pinned: bool = False
    line: str = ""
    """The user's code that the op is from, as ``net.py:13 in forward``."""

    @property
    def intensity(self) -> float:
        """Flops per byte moved."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True, slots=True)
class MachineReference:
    """The machine a plan was priced for."""

    name: str
    origin: str
    digest: str
    """SHA-256 of its figures: a plan made with other figures is another plan."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything ``runtime``, ``report`` and ``lint`` need to know of a placement."""

    model: ModelReference
    machine: MachineReference
    options: dict[str, str]
    devices: tuple[DeviceUse, ...]
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    values: tuple[ValueSpec, ...]
    """Values between partitions, by name."""
    partitions: tuple[Partition, ...]
    """In the order they run."""
    transfers: tuple[Transfer, ...]
    buffers: tuple[Buffer, ...]
    residencies: tuple[Residency, ...]
    decisions: tuple[Decision, ...]
    prediction: Prediction
    certificate: Certificate
    baselines: tuple[Baseline, ...]
    footprint_bytes: int
    """Weights plus peak live bytes with everything on the accelerator."""
    notes: tuple[str, ...] = ()
    """What the user should know: ops without a formula, renamed nodes, estimates."""
    passthrough: dict[str, str] = field(default_factory=dict[str, str])
    """Outputs that are inputs: output name → input name."""
    timeline: Timeline | None = None
    """``None`` in plans of revision 0."""
    states: dict[str, str] = field(default_factory=dict[str, str])
    """Inputs whose new content is an output, kept on one device: input name → output name."""
    homes: dict[str, str] = field(default_factory=dict[str, str])
    """Graph inputs and outputs that are handed over elsewhere than on the host: name → device."""
    granted: Granted = field(default_factory=Granted)
    """What it takes for granted of sizes that it leaves open."""
    examples: dict[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Inputs that not every number is right for, with what they may be given: one for all elements, or one for each."""
    schema: str = PLAN_SCHEMA
    version: int = PLAN_VERSION
    revision: int = PLAN_REVISION

    @property
    def used_devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(partition.device for partition in self.partitions))

    def device(self, name: str) -> DeviceUse:
        return next(use for use in self.devices if use.device == name)
