"""A model with the plan that was made for it: what users ask of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hetpart.frontend.model import required
from hetpart.graph.ir import Graph
from hetpart.request import require
from hetpart.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    import onnx
    import torch
    from torch.fx import GraphModule

    from hetpart.cost_model.annotate import Costs
    from hetpart.frontend.model import ExportedModel
    from hetpart.graph.from_onnx import ImportedModel
    from hetpart.plan.bundle import Bundle
    from hetpart.plan.model import Plan
    from hetpart.plan.timeline import Timeline
    from hetpart.pytorch.call import PlannedModule
    from hetpart.pytorch.device_map import DeviceMap
    from hetpart.runtime.session import Session


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PartitionedModel:
    """A model and the plan that was made for it."""

    plan: Plan
    graph: Graph
    costs: Costs
    imported: ImportedModel
    exported: ExportedModel | None = None
    """The PyTorch model that it is made from; ``None`` for others."""

    def __repr__(self) -> str:
        """One line; ``report()`` says all."""
        model, uses = self.plan.model, self.plan.devices
        facts = f"{format_count(model.ops, 'op')}, {format_bytes(model.weight_bytes)} of weights"
        placed = ", ".join(f"{use.device} {format_count(use.ops, 'op')} {format_bytes(use.peak_bytes)}" for use in uses)
        seconds = format_seconds(self.plan.prediction.seconds)
        return (
            f"<PartitionedModel {model.name!r}: {facts}; {placed}; {seconds} predicted on {self.plan.machine.name!r}>"
        )

    @property
    def timeline(self) -> Timeline:
        """When everything of a run would happen if devices and copies worked at the same time, with its bounds."""
        assert self.plan.timeline is not None
        return self.plan.timeline

    def report(self, *, width: int = 100) -> str:
        """The placement report as text."""
        from hetpart.report.text import render

        return render(self.plan, width=width)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from hetpart.report.notebook import plan_html

        return plan_html(self.plan)

    def plot(self, path: str | PathLike[str], kind: str = "timeline") -> Path:
        """Draw the predicted ``timeline``, or the ``memory`` of every device over it, as SVG or PNG by the name."""
        from hetpart.report.plots.of_plan import plot_plan

        plot_plan(self.plan, kind, Path(path))
        return Path(path)

    def to_frame(self) -> Any:
        """The ops with their devices, predicted figures and reasons as a ``pandas.DataFrame``. It needs pandas."""
        from hetpart.cost_model.frame import frame_of
        from hetpart.report.op_rows import op_rows

        return frame_of(op_rows(self.plan))

    def to_networkx(self, of: Literal["ops", "partitions"] = "ops") -> Any:
        """A ``networkx.MultiDiGraph`` of the ops, each with its device, or of the partitions by their numbers."""
        from hetpart.report.networks import op_network, partition_network

        require(of in ("ops", "partitions"), "of", of, 'it is "ops" or "partitions"')
        return op_network(self.graph, self.plan) if of == "ops" else partition_network(self.plan)

    def save(self, path: str | PathLike[str], *, self_contained: bool = False) -> Path:
        """Write the bundle to ``path``; weights stay where they are unless ``self_contained``.

        Weights that lie in no file, as those of a module in memory, are written into the bundle.
        """
        from hetpart.plan.bundle import write_bundle
        from hetpart.plan.cut_models import streamed_model

        models, streamed = self._models(), streamed_model(self.imported.proto, self.plan)
        plan, held = self.plan, None if self.exported is None else self.exported.held.folder()
        if held is not None:
            from hetpart.plan.weights import weight_files

            files = weight_files([*models, *([] if streamed is None else [streamed])], held)
            plan = replace(plan, model=replace(plan.model, folder=str(held), files=files))
        inside = self_contained or held is not None
        return write_bundle(Path(path), plan, models, streamed=streamed, self_contained=inside)

    def session(
        self,
        *,
        emulate: bool = False,
        threads: int | None = None,
        overlap: bool | None = None,
        emulate_link: str | float | None = None,
        weights: Mapping[str, Any] | None = None,
        record: bool = False,
    ) -> Session:
        """A session that runs the plan; with ``emulate``, accelerator partitions run on the CPU provider.

        The options are those of ``hetpart.Session``, and ``weights`` those of ``bundle``.
        """
        from hetpart.runtime.session import Session

        bundle = self.bundle(weights)
        return Session(
            bundle, emulate=emulate, threads=threads, overlap=overlap, emulate_link=emulate_link, record=record
        )

    def to_module(self, **options: Any) -> PlannedModule:
        """The plan as a ``torch.nn.Module`` that is called as the model was; ``options`` are those of ``session``.

        Raises:
            HetpartError: the model was no PyTorch model.
        """
        from hetpart.pytorch.call import planned_module

        return planned_module(required(self.exported, "to_module"), self.imported, self.session(**options))

    def to_fx(self, devices: Mapping[str, str | torch.device] | None = None) -> GraphModule:
        """A GraphModule for PyTorch alone: a submodule for every partition, and one for every copy between devices.

        Args:
            devices: PyTorch's names of the plan's devices, where they are others: ``{"cuda:0": "cuda:1"}``.

        Raises:
            HetpartError: the model was no PyTorch model.
        """
        from hetpart.pytorch.split import split

        return split(required(self.exported, "to_fx"), self.plan, self.graph, devices or {})

    def device_map(self) -> DeviceMap:
        """The nearest map from modules to devices, as Accelerate takes one, and what it loses.

        Raises:
            HetpartError: the model was no PyTorch model.
        """
        from hetpart.pytorch.device_map import device_map

        return device_map(required(self.exported, "device_map"), self.plan, self.graph)

    def _models(self) -> list[onnx.ModelProto]:
        from hetpart.cost_model.session.widened import widened_names
        from hetpart.graph.empty import empty_products
        from hetpart.plan.cut_models import cut_models

        proto = self.imported.proto
        return list(cut_models(proto, self.plan, widened_names(self.graph, proto), empty_products(self.graph)))

    def bundle(self, weights: Mapping[str, Any] | None = None) -> Bundle:
        """The plan and its partitions in memory. Weights stay in the model's files, checked to be unchanged.

        Those that lie in no file are written to one that lasts as long as this model or, where ``weights`` has tensors
        in their place, by name, read where those lie.
        """
        from hetpart.plan.bundle import Bundle
        from hetpart.plan.cut_models import streamed_model
        from hetpart.plan.fingerprint import verify_files

        reference = self.plan.model
        folder = Path(reference.folder) if reference.folder else None
        if folder is not None:
            verify_files(folder, reference.files)
        elif self.exported is not None and weights is None:
            folder = self.exported.held.folder()
        models = tuple(model.SerializeToString(deterministic=True) for model in self._models())
        streamed = streamed_model(self.imported.proto, self.plan)
        made = streamed.SerializeToString(deterministic=True) if streamed else None
        return Bundle(self.plan, models, folder, made, weights or {})
