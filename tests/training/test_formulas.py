# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Operators that are one for PyTorch's tracer have eager PyTorch's gradients; one without a formula is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hetpart.errors import InvalidModelError
from hetpart.training import SGD
from hetpart.training.compiled import Running, capture, place

LENGTHS = (6, 2, 3, 5)
_library = torch.library.Library("hetpart_test_formulas", "FRAGMENT")
_library.define("plain(Tensor x) -> Tensor")
_library.impl("plain", lambda x: x.detach() * 2, "CompositeExplicitAutograd")
_library._register_fake("plain", torch.empty_like)  # pyright: ignore[reportPrivateUsage]


@torch.library.custom_op("hetpart_test_formulas::unknown", mutates_args=())
def unknown(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("hetpart_test_formulas::known", mutates_args=())
def known(x: Tensor) -> Tensor:
    return x * 2


unknown.register_fake(torch.empty_like)
known.register_fake(torch.empty_like)
known.register_autograd(lambda _, slope: slope * 3)  # none that a trace of what it computes would find
plain: Callable[[Tensor], Tensor] = torch.ops.hetpart_test_formulas.plain.default


class Packed(nn.Module):
    """An embedding before a recurrent layer over a packed sequence, whose rows and last states a layer reads."""

    def __init__(self, kind: Callable[..., nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.recurrent = kind(4, 5, **options)
        sides = 2 if self.recurrent.bidirectional else 1
        self.head = nn.Linear(sides * (self.recurrent.proj_size or 5), 2)
        self.first = self.recurrent.batch_first

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        x = self.embedding(ids if self.first else ids.t())
        packed = pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=False)
        rows, last = self.recurrent(packed)
        padded, _ = pad_packed_sequence(rows, batch_first=self.first, padding_value=0.5, total_length=6)
        states = last if isinstance(last, tuple) else (last,)
        return self.head(padded).mean((0, 1)) + sum(state.mean() for state in states)


class Solved(nn.Module):
    """What least squares find in features that are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Linear(4, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        features = self.features(x)
        return features @ torch.linalg.lstsq(features, y)[0] + self.head(features)


class Scaled(nn.Module):
    """An operator between two layers."""

    def __init__(self, operator: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])
        self.operator = operator

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[1](self.operator(self.layers[0](x)).tanh())


def loss_of(model: nn.Module, *batch: Tensor) -> Tensor:
    return (model(*batch) - 1).square().mean()


def sequences() -> tuple[Tensor, ...]:
    return torch.randint(0, 9, (4, 6)), torch.tensor(LENGTHS)


def require_eagers(build: Callable[[], nn.Module], batches: list[tuple[Tensor, ...]], placement: str) -> None:
    """Losses and parameters of a step are those of eager PyTorch's, all of which change."""
    torch.manual_seed(1)
    model = build()
    torch.manual_seed(1)
    eager = build()
    before = {name: parameter.clone() for name, parameter in eager.named_parameters()}
    step = place(
        capture(model, loss_of, optimizer=SGD(0.05), example_batch=batches[0]),
        running=Running(emulate=True, threads=1), hardware="emulated", placement=placement,
    )  # fmt: skip
    optimizer = torch.optim.SGD(eager.parameters(), 0.05)
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(eager, *batch)
        loss.backward()
        optimizer.step()
        assert step(*batch).item() == pytest.approx(loss.item(), rel=1e-5)
    held = step.state_dict()["tensors"]
    step.close()
    for name, parameter in eager.named_parameters():
        assert not torch.equal(parameter, before[name])
        torch.testing.assert_close(held[name], parameter.detach(), rtol=1e-4, atol=1e-6)


PACKED: dict[str, Callable[[], nn.Module]] = {
    "gru": lambda: Packed(nn.GRU, batch_first=True),
    "gru of two layers both ways": lambda: Packed(nn.GRU, num_layers=2, bidirectional=True),
    "lstm": lambda: Packed(nn.LSTM),
    "lstm with projections": lambda: Packed(nn.LSTM, proj_size=3, bidirectional=True, batch_first=True),
    "rnn": lambda: Packed(nn.RNN, batch_first=True),
    "rnn of relus without biases": lambda: Packed(nn.RNN, nonlinearity="relu", bias=False),
}


@pytest.mark.parametrize("name", PACKED)
def test_recurrent_layers_over_packed_sequences_are_trained(name: str) -> None:
    torch.manual_seed(0)
    batches = [sequences(), (sequences()[0], torch.tensor([1, 6, 6, 4])), sequences()]
    require_eagers(PACKED[name], batches, "random:1")


@pytest.mark.parametrize("placement", ["all-cpu", "random:1"])
def test_least_squares_are_differentiated(placement: str) -> None:
    torch.manual_seed(0)
    require_eagers(Solved, [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)], placement)


def test_an_operator_with_a_formula_of_its_own_is_trained_by_it() -> None:
    torch.manual_seed(0)
    require_eagers(lambda: Scaled(known), [(torch.randn(3, 4),) for _ in range(3)], "random:1")


@pytest.mark.parametrize(("operator", "name"), [(plain, "plain"), (unknown, "unknown")])
def test_an_operator_without_a_formula_is_refused_by_name(operator: Callable[[Tensor], Tensor], name: str) -> None:
    with pytest.raises(InvalidModelError, match=rf"goes through hetpart_test_formulas\.{name}, and") as error:
        capture(Scaled(operator), loss_of, optimizer=SGD(0.1), example_batch=(torch.ones(3, 4),))
    assert "register_autograd" in error.value.hint


@pytest.mark.parametrize("operator", [plain, unknown])
def test_an_operator_without_a_formula_may_be_given_what_needs_no_gradient(
    operator: Callable[[Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    require_eagers(lambda: Scaled(lambda x: x + operator(x.detach())), [(torch.randn(3, 4),)] * 2, "random:1")
