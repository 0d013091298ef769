"""Small functions and modules that PyTorch users compile: breaks, views, in-place ops, sizes that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Small:
    """What is compiled, and calls of it, one after another."""

    code: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    dynamic: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def _x(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def branch_on_data(x: Tensor) -> Tensor:
    y = torch.sin(x)
    return y * 2 if y.sum() > 0 else y - 1


def break_in_the_middle(x: Tensor) -> Tensor:
    y = x @ x.T
    torch._dynamo.graph_break()
    return torch.relu(y) + x.sum()


def numpy_in_the_middle(x: Tensor) -> Tensor:
    total = float(torch.exp(x).sum().item())
    return x / total


def written_after_a_break(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    row = y[0]
    torch._dynamo.graph_break()
    y.mul_(10)
    return row, y


def views_that_are_written(x: Tensor) -> Tensor:
    left, right = (x * 2).chunk(2, dim=-1)
    torch._dynamo.graph_break()
    left.add_(1)
    return left + right


def argument_written(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def view_of_argument_written(x: Tensor) -> Tensor:
    x[0].mul_(3)
    x.T[1] = 7.0
    return x.sum(dim=0)


def argument_returned(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x, x.view(-1), x.T + 1


def result_twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.cos(x)
    return y, y, y.clone()


def clone_is_its_own(x: Tensor) -> Tensor:
    y = x.clone()
    torch._dynamo.graph_break()
    y.zero_()
    return y


def turned_results(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.permute(2, 0, 1) + 1
    torch._dynamo.graph_break()
    return y.permute(1, 2, 0).view(-1), y[1]


def made_results_in_channels_last(x: Tensor) -> Tensor:
    return nn.functional.avg_pool2d(x.to(memory_format=torch.channels_last), 2)


def lists_and_names(x: Tensor, *, scale: float = 2.0, more: tuple[Tensor, ...] = ()) -> dict[str, Any]:
    return {"scaled": x * scale, "rest": [part - x for part in more], "nothing": None, "number": 3}


def masked(x: Tensor) -> Tensor:
    y = x.clone()
    y[x > 0] = 0.5
    y.masked_fill_(x < -1, -9.0)
    return torch.where(y == 0.5, y, -y)


def types(x: Tensor) -> tuple[Tensor, ...]:
    return x.to(torch.float64), (x > 0).sum(), x.half() * 2, (x * 10).int() // 3, x.to(torch.bfloat16)


def sizes_in_the_code(x: Tensor) -> tuple[Tensor, int]:
    batch = x.shape[0]
    return x.reshape(2 * batch, -1) * batch, batch * 3


def rows_by_number(x: Tensor, count: int) -> Tensor:
    return x[:count].sum() * count + torch.arange(count).sum()


def empty_and_scalar(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:0] * 2, x.sum() * x.numel()


def branches_as_ops(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)) + 1


def only_views(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.unfold(0, 2, 1), x.expand(2, *x.shape)


def as_it_lies(x: Tensor) -> Tensor:
    return (x * 2).as_strided((2, 2), (1, 2)) + 1


class Rotated(nn.Module):
    """Weights that are complex, and some whose conjugation or negation PyTorch has put off."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.polar(torch.ones(4), torch.randn(4)))
        self.register_buffer("back", self.turn.detach().clone().conj())
        self.register_buffer("height", torch.polar(torch.ones(1), torch.ones(1)).conj().imag)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        turned = x * self.turn
        return torch.view_as_real(turned), (turned * self.back).abs() + self.height


class Counting(nn.Module):
    """A buffer that every call changes, beside weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x) * self.calls


class Training(nn.Module):
    """Running means that are learnt from what is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Rows(nn.Module):
    """A batch of any size through layers, a softmax and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.softmax(self.layers(x), dim=-1)
        return torch.cat([scores, scores.mean(dim=0, keepdim=True).expand(x.shape[0], -1)], dim=-1)


def seeded(module: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return module()


def cases() -> dict[str, Small]:
    """By name. Modules are made anew."""
    x, image = _x(4, 4), _x(2, 3, 4, 4)
    same = {
        code.__name__: Small(code, [(x,), (_x(4, 4, seed=1),)])
        for code in (
            branch_on_data, break_in_the_middle, numpy_in_the_middle, written_after_a_break, views_that_are_written,
            argument_written, view_of_argument_written, argument_returned, result_twice, clone_is_its_own, masked,
            types, empty_and_scalar, branches_as_ops, only_views, as_it_lies,
        )
    }  # fmt: skip
    return same | {
        "turned arguments": Small(break_in_the_middle, [(x.T,), (x[::2],)]),
        "turned_results": Small(turned_results, [(_x(2, 3, 4),)]),
        "made_results_in_channels_last": Small(made_results_in_channels_last, [(image,)]),
        "lists_and_names": Small(lists_and_names, [(x,), (-x,)]),
        "sizes_in_the_code": Small(sizes_in_the_code, [(_x(size, 4),) for size in (2, 3, 5, 9)], dynamic=True),
        "rows_by_number": Small(rows_by_number, [(_x(9, 4), count) for count in (2, 3, 5, 8)]),
        "batches that differ": Small(seeded(Rows), [(_x(size, 4),) for size in (3, 2, 5, 7, 70)]),
        "a dynamic batch": Small(seeded(Rows), [(_x(size, 4),) for size in (5, 2, 3, 4)], dynamic=True),
        "weights that are complex": Small(seeded(Rotated), [(x,), (-x,)]),
        "a buffer that counts": Small(seeded(Counting), [(x,), (x,), (x,)]),
        "running means": Small(seeded(Training), [(x,), (_x(4, 4, seed=2),)]),
    }
