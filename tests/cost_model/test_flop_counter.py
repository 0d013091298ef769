"""FLOPs of matrix products, convolutions and attention are those that PyTorch counts on the module itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import hetpart
from benchmarks import zoo
from benchmarks.models import exported
from benchmarks.models.exported import FAMILIES, Traced
from hetpart.cost_model.formulas import work_of
from hetpart.graph.ir import Graph, Op

SOFTMAX_FLOPS = 7
"""For each score of an attention, which PyTorch does not count."""
COUNTED = ("MatMul", "Gemm", "Conv", "ConvTranspose", "Attention")
BIASED = ("Gemm", "Conv", "ConvTranspose")
"""PyTorch does not count the sum of the bias, which is input 2 here: one flop an element."""
EXPORTED = ("bert-tiny", "gpt2-tiny", "vit-tiny", "whisper-tiny")


def flops(graph: Graph) -> int:
    return sum(_flops(op, graph) for op in graph.ops if op.op_type in COUNTED and not op.domain)


def _flops(op: Op, graph: Graph) -> int:
    work = work_of(op, graph)
    assert work is not None
    beside = graph.values[op.results[0]].numel if op.op_type in BIASED and op.inputs[2:] else 0
    if op.op_type == "Attention":
        query, key = (graph.values[v].shape or () for v in op.uses[:2])
        beside = SOFTMAX_FLOPS * prod(size or 0 for size in (*query[:3], key[2]))
    return round(work.flops) - beside


def counted(module: nn.Module, inputs: Sequence[object]) -> int:
    """Attention as plain products: the counter knows nothing of the CPU's fused kernel."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module.eval()(*inputs)
    return counter.get_total_flops()


def dimensions(traced: Traced) -> dict[str, int]:
    """The number of every symbolic dimension in the example inputs."""
    sizes: dict[str, int] = {}
    for value, axes in zip(traced.inputs.values(), traced.dynamic.values(), strict=True):
        pairs = [(value, axes)] if isinstance(value, Tensor) else zip(value, axes, strict=True)
        for tensor, names in pairs:
            sizes |= {name: tensor.shape[axis] for axis, name in names.items()}
    return sizes


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_transformers(name: str, zoo_model: Callable[[str], Path]) -> None:
    options = dict(zoo.ZOO[name].options)
    traced = FAMILIES[options.pop("family")](seed=0, **options)
    graph = hetpart.load(zoo_model(name), shape=dimensions(traced))
    assert flops(graph) == counted(traced.module, tuple(traced.inputs.values())) > 0


class Convolutions(nn.Module):
    """Strides, dilation, groups, depthwise, 1-d and transposed ones, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=2, padding=3), nn.ReLU(), nn.BatchNorm2d(16),
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.Conv2d(16, 32, 1),
            nn.Conv2d(32, 32, 3, padding=2, dilation=2, groups=4),
            nn.ConvTranspose2d(32, 8, 2, stride=2), nn.MaxPool2d(2),
        )  # fmt: skip
        self.line = nn.Conv1d(8, 12, 5, stride=3)
        self.head = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.line(self.body(x).flatten(2)).mean(2))


class Attending(nn.Module):
    """The attention operator of opset 23, and products with and without bias around it."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(64, 192), nn.Linear(64, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = [part.reshape(batch, tokens, 4, 16).transpose(1, 2) for part in self.into(x).chunk(3, dim=-1)]
        mixed = functional.scaled_dot_product_attention(*parts)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Experts(nn.Module):
    """What ``moe-dense-tiny`` is: every expert computes every token."""

    def __init__(self, experts: int, hidden: int, inner: int) -> None:
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.ModuleList(nn.Linear(hidden, inner, bias=False) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(inner, hidden, bias=False) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        shares = self.router(x).softmax(-1)
        parts = [down(up(x).relu()) for up, down in zip(self.up, self.down, strict=True)]
        return x + sum(shares[:, i : i + 1] * part for i, part in enumerate(parts))


@pytest.mark.parametrize(
    ("module", "shape", "opset"),
    [(Convolutions(), (2, 3, 64, 48), 20), (Attending(), (2, 24, 64), 20), (Attending(), (2, 24, 64), 23)],
)
def test_small_modules(module: nn.Module, shape: tuple[int, ...], opset: int, tmp_path: Path) -> None:
    path, example = tmp_path / "model.onnx", torch.ones(shape)
    with exported._quiet():
        program = torch.onnx.export(module.eval(), (example,), dynamo=True, opset_version=opset, verbose=False)
    assert program is not None
    program.save(path)
    graph = hetpart.load(path)
    assert flops(graph) == counted(module, (example,)) > 0
    assert any(op.op_type == "Attention" for op in graph.ops) == (opset == 23)


def test_a_mixture_of_experts(zoo_model: Callable[[str], Path]) -> None:
    options = zoo.ZOO["moe-dense-tiny"].options
    layer = Experts(options["experts"], options["hidden"], options["inner"])
    graph = hetpart.load(zoo_model("moe-dense-tiny"), shape={"tokens": 64})
    assert flops(graph) == options["layers"] * counted(layer, (torch.ones(64, options["hidden"]),)) > 0
