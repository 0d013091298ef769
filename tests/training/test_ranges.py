# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What PyTorch refuses in a batch by its values, a step refuses before it updates anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from hetpart.errors import ExecutionError
from hetpart.training import SGD
from hetpart.training.compiled import Running, capture, place
from hetpart.training.ranges import Range
from hetpart.training.step import Step

CLASSES, X = 5, torch.linspace(-1, 1, 24).reshape(4, 6)
GOOD = torch.tensor([0, 4, 2, 1])
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "cross_entropy": lambda m, x, y: functional.cross_entropy(m(x), y),
    "ignoring": lambda m, x, y: functional.cross_entropy(m(x), y, ignore_index=2),
    "nll_loss": lambda m, x, y: functional.nll_loss(m(x).log_softmax(-1), y.reshape(4, 1).squeeze(1)),
    "later": lambda m, x, y: functional.cross_entropy(m(x)[1:], y[1:]),
    "of places": lambda m, x, y: functional.cross_entropy(m(x).unsqueeze(2).expand(4, 5, 2), y[:, None].expand(4, 2)),
    "gather": lambda m, x, y: m(x).gather(1, y[:, None]).sum(),
    "along": lambda m, x, y: torch.take_along_dim(m(x), y[:, None], 1).square().sum(),
    "index_select": lambda m, x, y: m(x).index_select(1, y).square().sum(),
    "index_add": lambda m, x, y: torch.zeros(5, 5).index_add(0, y, m(x)).square().sum(),
    "index_add_": lambda m, x, y: (1 * m(x)).index_add_(1, y, m(x)[:, :4]).square().sum(),
    "index_copy": lambda m, x, y: torch.zeros(5, 5).index_copy(0, y, m(x)).square().sum(),
    "scatter": lambda m, x, y: torch.zeros(4, 5).scatter(1, y[:, None], m(x)[:, :1]).square().sum(),
    "scatter of a number": lambda m, x, y: m(x).scatter(1, y[:, None], 0.5).square().sum(),
    "scatter_add": lambda m, x, y: torch.zeros(4, 5).scatter_add(1, y[:, None], m(x)[:, :1]).square().sum(),
    "scatter_reduce": lambda m, x, y: m(x).scatter_reduce(1, y[:, None], 2 * m(x)[:, :1], "sum").square().sum(),
    "one_hot": lambda m, x, y: (functional.one_hot(y, CLASSES) * m(x)).sum(),
    "margin": lambda m, x, y: functional.multi_margin_loss(m(x), y),
    "counted from the end": lambda m, x, y: m(x)[torch.arange(4), y].sum(),
    "computed": lambda m, x, y: functional.cross_entropy(m(x), (y + 5) % 6 - 1),
    "moved": lambda m, x, y: functional.one_hot(2 * (y + 3) // 2 - 3, CLASSES).mul(m(x)).sum(),
    "clamped": lambda m, x, y: functional.cross_entropy(m(x), y.clamp(0, 4)),
}


def compiled(loss: Loss, model: nn.Module, *batch: Tensor) -> Step:
    captured = capture(model, loss, optimizer=SGD(0.1), example_batch=batch)
    return place(captured, running=Running(emulate=True, threads=1), hardware="emulated", placement="all-cpu")


def agrees(loss: Loss, model: nn.Module, step: Step, *batch: Tensor) -> bool:
    """Whether the step does with a batch what PyTorch does: computes its loss, or refuses it."""
    step.sync_to(model)
    before = {name: tensor.clone() for name, tensor in step.state_dict()["tensors"].items()}
    try:
        expected = loss(model, *batch)
    except (IndexError, RuntimeError):
        with pytest.raises(ExecutionError):
            step(*batch)
        after = step.state_dict()["tensors"]
        return all(torch.equal(before[name], after[name]) for name in before)
    return torch.allclose(step(*batch), expected, rtol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_labels_are_refused_where_pytorch_refuses_them(name: str) -> None:
    torch.manual_seed(0)
    model, loss = nn.Linear(6, CLASSES), LOSSES[name]
    step = compiled(loss, model, X, GOOD)
    for label in (4, 0, -1, -2, -CLASSES, -CLASSES - 1, CLASSES, -100):
        for place_ in (0, 3):
            labels = GOOD.clone()
            labels[place_] = label
            assert agrees(loss, model, step, X, labels), (label, place_)


def test_labels_changed_in_the_loss_are_left_alone() -> None:
    def loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        labels = labels.clone()
        labels.view(-1)[labels == -1] = -100
        return functional.cross_entropy(model(x), labels)

    torch.manual_seed(0)
    model = nn.Linear(6, CLASSES)
    assert agrees(loss, model, compiled(loss, model, X, GOOD), X, torch.tensor([0, -1, 2, 1]))


def _marked(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Labels from 1 on, of which 0 is left out: what is computed is changed, the part is not."""
    shifted = labels - 1
    shifted[labels == 0] = -100
    return functional.cross_entropy(model(x), shifted)


def _beside(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    doubled = labels * 2
    doubled.zero_()
    return functional.cross_entropy(model(x), labels) + doubled.sum()


def _at_least(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), torch.clamp(labels, min=0, max=3))


@pytest.mark.parametrize("loss", [_marked, _beside, _at_least])
def test_what_is_computed_of_a_part_has_memory_of_its_own(loss: Loss) -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, CLASSES)
    step = compiled(loss, model, X, GOOD)
    for labels in (GOOD, torch.tensor([0, 4, 2, 3]), torch.tensor([0, -1, 2, 1])):
        assert (loss is _marked and int(labels.min()) < 0) or agrees(loss, model, step, X, labels)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32])
@pytest.mark.parametrize("most", [4, 127, 200])
def test_values_of_any_type_are_held_against_both_ends(dtype: torch.dtype, most: int) -> None:
    """Where they lie side by side or not, and beside one that is ignored."""
    least, highest = (-128, 127) if dtype is torch.int8 else (0 if dtype is torch.uint8 else -300, 255)
    values = Range(0, (), "labels", "an operator", most, ignored=7)
    for number in (*range(-2, 10), least, 126, 127, 128, 199, 200, 201, highest):
        if not least <= number <= highest:
            continue
        for part in (torch.tensor([1, number, 3]), torch.tensor([[1, 0], [number, 0]])[:, 0], torch.tensor(number)):
            if 0 <= number <= most or number == 7:
                values.require(part.to(dtype))
                continue
            with pytest.raises(ExecutionError, match=rf"labels of an operator go from .* 0 to {most} are possible"):
                values.require(part.to(dtype))


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_ids_of_a_table_with_an_optimizer_of_whole_parameters(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model, ids = kind(CLASSES, 3), GOOD.reshape(2, 2)

    def loss(table: nn.Module, x: Tensor, ids: Tensor) -> Tensor:
        return (table(ids) * x).sum()

    step = compiled(loss, model, torch.ones(3), ids)
    for bad in (0, -1, CLASSES):
        assert agrees(loss, model, step, torch.ones(3), torch.where(ids == 4, bad, ids))


def test_targets_beyond_0_and_1() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 1)

    def loss(model: nn.Module, x: Tensor, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy(model(x).squeeze(1).sigmoid(), targets)

    step = compiled(loss, model, X, torch.ones(4))
    for last in (0.5, 0.0, 1.0, 1.5, -0.25, torch.nan):
        assert agrees(loss, model, step, X, torch.tensor([0.0, 1.0, 0.25, last])), last
