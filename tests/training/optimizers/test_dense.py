# pyright: reportArgumentType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from hetpart.training.optimizers import FTRL, SGD, Adagrad, Adam, AdamW, Momentum, Optimizer, update_master_

STEPS = 20
PAIRS: list[tuple[Optimizer, Callable[..., torch.optim.Optimizer], dict[str, str]]] = [
    (SGD(0.1), lambda p: torch.optim.SGD(p, lr=0.1, fused=True), {}),
    (SGD(0.1, weight_decay=0.2), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2, fused=True), {}),
    (Momentum(0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True), {"momentum": "momentum_buffer"}),
    (
        Momentum(0.1, 0.8, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1, fused=True),
        {"momentum": "momentum_buffer"},
    ),
    (
        Momentum(0.1, 0.8, dampening=0.5),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, dampening=0.5, fused=True),
        {"momentum": "momentum_buffer"},
    ),
    (
        Adam(1e-2, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, fused=True),
        {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    ),
    (
        Adam(1e-2, 0.9, 0.0),
        lambda p: torch.optim.Adam(p, lr=1e-2, betas=(0.9, 0.0), fused=True),
        {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    ),
    (
        AdamW(1e-2, 0.8, 0.95, 1e-6, 0.1),
        lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, fused=True),
        {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"},
    ),
    (
        Adagrad(1e-2, 0.1, 0.1, 1e-8, 0.5),
        lambda p: torch.optim.Adagrad(
            p, lr=1e-2, lr_decay=0.1, weight_decay=0.1, eps=1e-8, initial_accumulator_value=0.5, fused=True
        ),
        {"sum": "sum"},
    ),
]


def gradients(shape: tuple[int, ...], count: int = STEPS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def weights(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("ours", "theirs", "names"), PAIRS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("shape", [(37, 11), (), (5,)], ids=str)
def test_updates_are_pytorchs_bit_for_bit(
    ours: Optimizer, theirs: Callable[..., torch.optim.Optimizer], names: dict[str, str], shape: tuple[int, ...]
) -> None:
    parameter, expected = weights(shape), weights(shape).requires_grad_()
    state, reference = ours.init(parameter), theirs([expected])
    for step, gradient in enumerate(gradients(shape), start=1):
        ours.update_(parameter, gradient.clone(), state, step, ours.lr)
        expected.grad = gradient.clone()
        reference.step()
    assert torch.equal(parameter, expected.detach())
    assert set(state) == set(ours.state_names) == set(names)
    for name, key in names.items():
        assert torch.equal(state[name], reference.state[expected][key])


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(37, 11), (64,), ()], ids=str)
@pytest.mark.parametrize(
    ("ours", "options"),
    [
        (SGD(0.1, weight_decay=0.2), {"weight_decay": 0.2}),
        (Momentum(0.1), {"momentum": 0.9}),
        (Momentum(0.1, 0.8, nesterov=True), {"momentum": 0.8, "nesterov": True}),
        (Momentum(0.1, 0.8, dampening=0.5), {"momentum": 0.8, "dampening": 0.5}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parameters_in_half_precision_are_updated_as_torch_optim_does(
    ours: Optimizer, options: dict[str, float], shape: tuple[int, ...], half: torch.dtype
) -> None:
    """Of which PyTorch's own fused kernel leaves all whole vectors as they are."""
    parameter, expected = weights(shape).to(half), weights(shape).to(half).requires_grad_()
    state, reference = ours.init(parameter), torch.optim.SGD([expected], lr=0.1, **options)
    for step, gradient in enumerate(gradients(shape), start=1):
        ours.update_(parameter, gradient.to(half), state, step, ours.lr)
        expected.grad = gradient.to(half)
        reference.step()
    assert torch.equal(parameter, expected.detach())
    for name in state:
        assert torch.equal(state[name], reference.state[expected]["momentum_buffer"])


def ftrl_reference(rule: FTRL, weight: Tensor, slopes: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """McMahan et al. 2013, algorithm 1, element by element in double precision."""
    flat = weight.double().flatten().tolist()
    squares, linear = [rule.initial_accumulator] * len(flat), [0.0] * len(flat)
    for slope in slopes:
        for i, g in enumerate(slope.double().flatten().tolist()):
            sigma = ((squares[i] + g * g) ** 0.5 - squares[i] ** 0.5) / rule.lr
            linear[i] += g - sigma * flat[i]
            squares[i] += g * g
            if abs(linear[i]) <= rule.l1:
                flat[i] = 0.0
            else:
                sign = 1.0 if linear[i] > 0 else -1.0
                flat[i] = -(linear[i] - sign * rule.l1) / ((rule.beta + squares[i] ** 0.5) / rule.lr + rule.l2)
    shape = weight.shape
    return tuple(torch.tensor(values, dtype=torch.float64).view(shape) for values in (flat, squares, linear))  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("rule", [FTRL(0.1), FTRL(0.05, 0.0, 1e-3, 1e-3, 1.0), FTRL(0.5, 1.0, 3.0, 0.1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ftrl_follows_the_paper(rule: FTRL, dtype: torch.dtype) -> None:
    start, slopes = weights((41, 3)), gradients((41, 3), 100)
    parameter = start.to(dtype, copy=True)
    state = rule.init(parameter)
    for step, slope in enumerate(slopes, start=1):
        rule.update_(parameter, slope.to(dtype, copy=True), state, step, rule.lr)
    expected = dict(zip(("weight", "accumulator", "linear"), ftrl_reference(rule, start, slopes), strict=True))
    relative = 2e-4 if dtype is torch.float32 else 1e-12
    for name, found in {"weight": parameter, **state}.items():
        torch.testing.assert_close(found.double(), expected[name], rtol=relative, atol=relative, msg=name)
    if rule.l1 == 3.0:
        assert 0 < int((parameter == 0).sum()) < parameter.numel()


BY_KERAS = {
    FTRL(0.25, 1.0, 0.75, 0.125, 0.5): (
        -0.02892445379633705, 0.0, 0.02325728217201807, 0.015353034750869101, 0.10544169766060758, 0.3381121214489062
    ),
    FTRL(0.25, 0.0, 0.0, 0.0, 0.5): (
        -0.35388404704634335, -0.1594629682221465, 0.0659845474746446, 0.1673509883721174, 0.37314188215658795,
        0.8114943629184851,
    ),
}  # fmt: skip
"""After 100 updates by ``keras.optimizers.Ftrl`` of Keras 3.15.1 in float64, with half of our ``l2``."""


@pytest.mark.parametrize("rule", BY_KERAS, ids=str)
def test_ftrl_is_that_of_keras(rule: FTRL) -> None:
    parameter, places = torch.linspace(-1, 1, 6, dtype=torch.float64), torch.arange(6, dtype=torch.float64)
    state = rule.init(parameter)
    for step in range(1, 101):
        rule.update_(parameter, torch.sin(places * step + step) + 0.01 * (places - 3), state, step, rule.lr)
    torch.testing.assert_close(parameter, torch.tensor(BY_KERAS[rule], dtype=torch.float64), rtol=1e-12, atol=0)


def test_ftrl_leaves_a_weight_without_gradients_at_0() -> None:
    """With nothing that damps the first update, its root is of 0."""
    rule, parameter, slope = FTRL(0.1, beta=0.0), torch.ones(4), torch.tensor([0.0, 1.0, 0.0, -1.0])
    state = rule.init(parameter)
    rule.update_(parameter, slope, state, 1, rule.lr)
    assert parameter[::2].eq(0.0).all()
    torch.testing.assert_close(parameter[1::2], torch.tensor([0.9, 1.1]))


def test_ftrl_changes_nothing_at_a_rate_of_0() -> None:
    """As where a schedule begins at 0."""
    rule, parameter = FTRL(0.1), torch.ones(4)
    state = rule.init(parameter)
    rule.update_(parameter, torch.ones(4), state, 1, 0.0)
    assert parameter.eq(1.0).all()
    assert all(kept.eq(0.0).all() for kept in state.values())


ALL = [SGD(0.1), Momentum(0.1), Adam(1e-2), AdamW(1e-2), Adagrad(1e-2), FTRL(0.1, l1=0.01)]


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
def test_a_scale_is_a_scaled_gradient(rule: Optimizer) -> None:
    one, other = weights((7, 5)), weights((7, 5))
    state, scaled = rule.init(one), rule.init(other)
    for step, gradient in enumerate(gradients((7, 5), 5), start=1):
        rule.update_(one, gradient.clone(), state, step, rule.lr)
        rule.update_(other, gradient * 1024, scaled, step, rule.lr, scale=1 / 1024)
    assert torch.equal(one, other)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_gradient_stays_as_it_is(rule: Optimizer, dtype: torch.dtype, scale: float) -> None:
    parameter, [gradient] = weights((700, 300)).to(dtype), gradients((700, 300), 1)
    gradient = gradient.to(dtype)
    before, state = gradient.clone(), rule.init(parameter)
    for step in (1, 2):
        rule.update_(parameter, gradient, state, step, rule.lr, scale)
    assert torch.equal(gradient, before)
    master = parameter.float()
    half, state = parameter.bfloat16(), rule.init(master)
    update_master_(rule, master, half, gradient, state, step=1, lr=rule.lr, scale=scale)
    assert torch.equal(gradient, before)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
def test_the_rate_of_the_step_counts_and_not_the_records(rule: Optimizer) -> None:
    parameter, expected = weights((4, 3)), weights((4, 3))
    [gradient] = gradients((4, 3), 1)
    other = replace(rule, lr=0.3)
    rule.update_(parameter, gradient.clone(), rule.init(parameter), 1, 0.3)
    other.update_(expected, gradient.clone(), other.init(expected), 1, other.lr)
    assert torch.equal(parameter, expected)
    assert not torch.equal(parameter, weights((4, 3)))


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_master_takes_half_gradients_and_gives_half_weights(rule: Optimizer, dtype: torch.dtype) -> None:
    shape = (700, 300)  # two blocks and a bit
    master, expected = weights(shape), weights(shape)
    half, state, reference = master.to(dtype), rule.init(master), rule.init(expected)
    for step, gradient in enumerate(gradients(shape, 3), start=1):
        update_master_(rule, master, half, gradient.to(dtype), state, step=step, lr=rule.lr)
        rule.update_(expected, gradient.to(dtype).float(), reference, step, rule.lr)
    assert torch.equal(master, expected)
    assert torch.equal(half, expected.to(dtype))
    for name in rule.state_names:
        assert torch.equal(state[name], reference[name])


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mixed", [True, False])
def test_strides_do_not_matter(rule: Optimizer, dtype: torch.dtype, mixed: bool) -> None:
    shape = (2, 3, 4, 5)
    last = torch.channels_last
    parameter, expected = weights(shape).to(memory_format=last), weights(shape)
    state, reference = rule.init(parameter), rule.init(expected)
    for step, gradient in enumerate(gradients(shape, 3), start=1):
        given = gradient.to(dtype) if mixed else gradient.to(dtype).to(memory_format=last)
        rule.update_(parameter, given, state, step, rule.lr)
        rule.update_(expected, gradient.to(dtype).float(), reference, step, rule.lr)
    torch.testing.assert_close(parameter, expected, rtol=0, atol=0)
    assert parameter.is_contiguous(memory_format=last)


def test_a_view_with_gaps_is_updated_alone() -> None:
    whole = weights((6, 4))
    rule = Adam(0.1)
    part = whole[::2, 1:]
    expected = part.clone(memory_format=torch.contiguous_format)
    [gradient] = gradients((3, 3), 1)
    rule.update_(part, gradient, rule.init(part), 1, rule.lr)
    rule.update_(expected, gradient, rule.init(expected), 1, rule.lr)
    assert torch.equal(whole[::2, 1:], expected)
    assert torch.equal(whole[1::2], weights((6, 4))[1::2])
    assert torch.equal(whole[:, 0], weights((6, 4))[:, 0])


def test_a_leaf_that_records_gradients_is_updated() -> None:
    leaf = torch.nn.Parameter(weights((3, 3)))
    rule = AdamW()
    state = rule.init(leaf)
    leaf.sum().backward()
    assert leaf.grad is not None
    rule.update_(leaf, leaf.grad, state, 1, rule.lr)
    assert not torch.equal(leaf, weights((3, 3)))
    assert not any(tensor.requires_grad for tensor in state.values())


def test_momentum_of_nothing_is_pytorchs() -> None:
    weight, gradient = torch.linspace(-1, 1, 5), torch.linspace(2, 3, 5)
    eager = torch.nn.Parameter(weight.clone())
    eager.grad = gradient.clone()
    torch.optim.SGD([eager], 0.1, momentum=0.0, weight_decay=0.01, fused=True).step()
    rule = Momentum(0.1, momentum=0.0, weight_decay=0.01)
    rule.update_(weight, gradient, rule.init(weight), 1, rule.lr)
    assert torch.equal(weight, eager.detach())
