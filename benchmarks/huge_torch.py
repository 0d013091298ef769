"""Planning decoders that fit nowhere, from their `transformers` configuration: no weight is made, read or allocated.

    python -m benchmarks.huge_torch [--models llama-70b mixtral-8x22b] [--tokens 1 512]

Every module is made on the meta device in a fresh process, exported and partitioned there, in the dtype its weights
are published in. Seconds are those of ``hetpart.partition``: export, translation, pricing, search and the plan; imports
and the making of the module stand beside them. Resident bytes are the most of the whole process, PyTorch's imports
included (``ru_maxrss``). Reach: 60 s, 4 GB resident, a certified gap of 1 %.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable, Mapping
from time import perf_counter, process_time
from typing import Any

from benchmarks.measure import emit, fresh_process, machine_facts, say

REACH = {"seconds": 60.0, "resident_bytes": 4_000_000_000, "gap": 0.01}
MACHINES = {"24GB": "rtx-4090+epyc", "80GB": "h100+epyc"}
"""By budget."""


def _llama(implementation: str) -> Any:
    """Llama 3 of 70 billion weights."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=128_256, hidden_size=8192, intermediate_size=28_672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5, use_cache=False,
        attn_implementation=implementation,
    )  # fmt: skip


def _mixtral(implementation: str) -> Any:
    """Mixtral of eight experts and 141 billion weights; experts are read by row, as `batched_mm` does."""
    from transformers import MixtralConfig

    return MixtralConfig(
        vocab_size=32_000, hidden_size=6144, intermediate_size=16_384, num_hidden_layers=56, num_attention_heads=48,
        num_key_value_heads=8, num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=65_536,
        use_cache=False, attn_implementation=implementation, experts_implementation="batched_mm",
    )  # fmt: skip


CONFIGS: Mapping[str, Callable[[str], Any]] = {"llama-70b": _llama, "mixtral-8x22b": _mixtral}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[1, 512], help="of one call")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--attention", default="sdpa")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_planned(json.loads(arguments.child))))
        return
    facts = machine_facts()
    cases = [
        {"model": model, "tokens": tokens, "budget": budget, "dtype": arguments.dtype, "attention": arguments.attention}
        for model in arguments.models
        for tokens in arguments.tokens
        for budget in MACHINES
    ]
    plans = [_measured(case) for case in cases]
    worst = {name: max(plan[name] for plan in plans) for name in REACH}
    reached = all(worst[name] <= reach for name, reach in REACH.items())
    emit("huge_torch", {"machine": facts, "reach": REACH, "worst": worst, "reached": reached, "plans": plans})


def _measured(case: dict[str, Any]) -> dict[str, Any]:
    say("huge_torch: " + ", ".join(f"{key} {value}" for key, value in case.items()))
    return {**case, **fresh_process("benchmarks.huge_torch", "--child", json.dumps(case))}


def _planned(case: Mapping[str, Any]) -> dict[str, Any]:
    start = perf_counter()
    import torch
    import transformers

    import hetpart

    config = CONFIGS[case["model"]](case["attention"])
    imported_at = perf_counter()
    with torch.device("meta"):
        module = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, case["dtype"])).eval()
    ids = torch.zeros(1, case["tokens"], dtype=torch.long)
    made_at = perf_counter()
    stages: list[tuple[str, float]] = []
    busy = process_time()
    planned = hetpart.partition(
        module, kwargs={"input_ids": ids}, budget=case["budget"], hardware=MACHINES[case["budget"]],
        progress=lambda stage: stages.append((stage, perf_counter())),
    )  # fmt: skip
    done_at = perf_counter()
    ends = [*(when for _, when in stages[1:]), done_at]
    plan = planned.plan
    return {
        "seconds": done_at - made_at,
        "processor_seconds": process_time() - busy,
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "gap": plan.certificate.gap,
        "import_seconds": imported_at - start,
        "module_seconds": made_at - imported_at,
        "stages": {stage: end - begin for (stage, begin), end in zip(stages, ends, strict=True)},
        "ops": plan.model.ops,
        "weight_bytes": plan.model.weight_bytes,
        "predicted_seconds": plan.prediction.seconds,
        "partitions": len(plan.partitions),
        "peak_bytes": {use.device: use.peak_bytes for use in plan.devices},
        "streamed_weights": sum(held.state == "streamed" for held in plan.residencies),
        "baselines": {rule.name: rule.seconds for rule in plan.baselines},
    }


if __name__ == "__main__":
    main()
