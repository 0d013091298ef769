# pyright: reportUnknownMemberType=false
"""Pins on modules as decorators, entered again, and on what ``torch.compile`` returned, beside pins by names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import hetpart

X = torch.linspace(-1, 1, 8).reshape(1, 8)
OPTIONS: dict[str, Any] = {"args": (X,), "hardware": "emulated", "placement": "all-accelerator"}


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def devices(module: nn.Module, **options: Any) -> dict[str, str]:
    return {one.scope: one.device for one in hetpart.partition(module, **OPTIONS, **options).plan.decisions}


PINNED = devices(model(), pin="0.*=cpu")
FREE = devices(model())


def test_a_decorator_pins_while_the_function_runs() -> None:
    module = model()

    @hetpart.pin(module[0], "cpu")
    def planned(other: nn.Module, *, deeper: bool = False) -> dict[str, str]:
        return planned(other) if deeper else devices(other)

    assert planned.__name__ == "planned"
    for deeper in (False, True):
        assert planned(module, deeper=deeper) == PINNED != FREE
        assert devices(module) == FREE

    @hetpart.pin(module[0], "cpu")
    def failing() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert devices(module) == FREE


def test_a_pin_that_is_entered_again_is_in_force_again() -> None:
    module = model()
    pin = hetpart.pin(module[0], "cpu")
    for _ in range(2):
        with pin:
            with pin:
                assert devices(module) == PINNED
            assert devices(module) == PINNED
        assert devices(module) == FREE


def compiled(module: nn.Module) -> Any:
    return torch.compile(module, backend="eager")


COMPILED: dict[str, Callable[[Any], tuple[nn.Module, nn.Module]]] = {
    "the whole": lambda module: (compiled(module), module[0]),
    "a part of it": lambda module: (whole := compiled(module), getattr(whole, "0")),
    "the pinned one": lambda module: (module, compiled(module[0])),
}


@pytest.mark.parametrize("way", COMPILED)
def test_what_torch_compile_returned_is_the_module_it_was_given(way: str) -> None:
    given, pinned = COMPILED[way](model())
    with hetpart.pin(pinned, "cpu"):
        assert devices(given) == PINNED
    assert devices(given, pin="0.*=cpu") == PINNED
    planned = hetpart.partition(given, **OPTIONS)
    torch.testing.assert_close(planned.to_module(emulate=True)(X), given(X))


def test_the_compiled_whole_is_pinned() -> None:
    module: Any = compiled(model())
    with hetpart.pin(module, "cpu"):
        assert set(devices(module).values()) == {"cpu"}


def test_devices_by_pattern_may_be_those_of_pytorch() -> None:
    assert devices(model(), pin={"0.*": torch.device("cpu")}) == PINNED


def test_a_module_among_patterns_is_told_what_pins_it() -> None:
    module = model()
    with pytest.raises(hetpart.InvalidOptionError, match=r"^pin cannot be ") as refused:
        devices(module, pin={module[0]: "cpu"})
    assert "hetpart.pin(module, device)" in refused.value.hint
