"""Parameters per second that the host's optimizers update, beside PyTorch's fused AdamW over the same memory.

    python -m benchmarks.training_optimizers [--parameters 50000000]

Reach: AdamW at least 0.95 times PyTorch's. The rivals of a row take turns.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from benchmarks.measure import Spread, emit, interleaved, machine_facts, say
from hetpart.training.optimizers import FTRL, SGD, Adagrad, Adam, AdamW, Momentum, update_master_

REACH = 0.95
ROUNDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=50_000_000)
    count = parser.parse_args().parameters
    facts = machine_facts() | {"torch": torch.__version__, "threads": torch.get_num_threads()}
    beside = _beside_pytorch(count)
    ratio = beside["theirs"].median / beside["ours"].median
    emit(
        "training_optimizers",
        {
            "machine": facts,
            "parameters": count,
            "reach": REACH,
            "reached": ratio >= REACH,
            "adamw": beside | {"ratio": round(ratio, 3), "parameters_per_second": count / beside["ours"].median},
            "others": _others(count),
        },
    )


def _beside_pytorch(count: int) -> dict[str, Spread]:
    say("training_optimizers: AdamW beside PyTorch's")
    ours, theirs = torch.randn(count), torch.nn.Parameter(torch.randn(count))
    gradient = torch.randn(count)
    theirs.grad = gradient
    rule = AdamW()
    state = rule.init(ours)
    optimizer = torch.optim.AdamW([theirs], lr=rule.lr, weight_decay=rule.weight_decay, fused=True)
    rivals = (lambda: rule.update_(ours, gradient, state, 2, rule.lr), optimizer.step)
    interleaved(rivals, 2)
    return dict(zip(("ours", "theirs"), map(Spread.of, interleaved(rivals, ROUNDS)), strict=True))


def _others(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    parameter, gradient = torch.randn(count), torch.randn(count)
    for rule in (SGD(1e-3), Momentum(1e-3), Adagrad(), Adam(), FTRL(0.1, l1=0.01)):
        say(f"training_optimizers: {type(rule).__name__}")
        state = rule.init(parameter)
        update = (lambda rule=rule, state=state: rule.update_(parameter, gradient, state, 2, rule.lr),)
        rows.append(_row(type(rule).__name__, update, count))
    rule, half, slopes = AdamW(), parameter.bfloat16(), gradient.bfloat16()
    say("training_optimizers: AdamW of a master")
    state = rule.init(parameter)
    master = (lambda: update_master_(rule, parameter, half, slopes, state, step=2, lr=rule.lr),)
    return [*rows, _row("AdamW of an fp32 master, bf16 gradient in, bf16 weight out", master, count)]


def _row(name: str, update: tuple[Any], count: int) -> dict[str, Any]:
    interleaved(update, 2)
    (seconds,) = interleaved(update, ROUNDS)
    spread = Spread.of(seconds)
    return {"optimizer": name, "seconds": spread, "parameters_per_second": count / spread.median}


if __name__ == "__main__":
    main()
