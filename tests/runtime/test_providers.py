"""Providers that the user names are what runs, or are refused with the reason; so are CUDA graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hetpart
from hetpart.errors import DeviceUnavailableError, InvalidOptionError
from hetpart.runtime.providers import ProviderChoice, is_capturable, parse_providers, provider_list
from tests.runtime.models import cut, model, placed

PAIR = model("pair (float[4] x) => (float[4] z) { [a] y = Neg(x) [b] w = Abs(y) [c] z = Neg(w) }")
FEED = {"x": np.arange(4, dtype=np.float32)}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, {}),
        ("cuda:0=TensorrtExecutionProvider", {"cuda:0": ProviderChoice("TensorrtExecutionProvider")}),
        (
            ["cuda:0=TensorrtExecutionProvider, trt_fp16_enable=1,trt_engine_cache_path=/a=b", "cpu=X"],
            {
                "cuda:0": ProviderChoice(
                    "TensorrtExecutionProvider", {"trt_fp16_enable": "1", "trt_engine_cache_path": "/a=b"}
                ),
                "cpu": ProviderChoice("X"),
            },
        ),
        ({"cpu": "X,y=1"}, {"cpu": ProviderChoice("X", {"y": "1"})}),
    ],
)
def test_providers_are_read(given: Any, found: dict[str, ProviderChoice]) -> None:
    assert parse_providers(given) == found


@pytest.mark.parametrize("given", ["cpu", "=X", "cpu=", "cpu=X,y", ["cpu=X", "cpu=Y"]])
def test_what_is_no_provider_is_refused(given: Any) -> None:
    with pytest.raises(InvalidOptionError):
        parse_providers(given)


def test_accelerators_are_told_their_number() -> None:
    choice = ProviderChoice("TensorrtExecutionProvider", {"trt_fp16_enable": "1"})
    options = {"device_id": "1", "trt_fp16_enable": "1"}
    assert provider_list(choice, "cuda:1") == [("TensorrtExecutionProvider", options), "CPUExecutionProvider"]
    assert provider_list(ProviderChoice("CPUExecutionProvider"), "cpu") == [("CPUExecutionProvider", {})]


def test_the_hosts_provider_can_be_named() -> None:
    with cut(PAIR, ("b",), provider="cpu=CPUExecutionProvider") as session:
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert session.run(None, FEED)[0].tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize(
    ("provider", "error", "message"),
    [
        ("cuda:1=CUDAExecutionProvider", InvalidOptionError, "no device 'cuda:1'"),
        ("cuda:0=CUDAExecutionProvider", InvalidOptionError, "emulated"),
        ("cpu=NoSuchExecutionProvider", DeviceUnavailableError, "NoSuchExecutionProvider"),
    ],
)
def test_what_cannot_run_is_refused(provider: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cut(PAIR, ("b",), provider=provider)


def test_a_provider_that_does_not_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime would go on without it."""
    known = [*onnxruntime.get_available_providers(), "AcmeExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: known)
    with pytest.raises(hetpart.HetpartError, match="Acme"):
        cut(PAIR, ("b",), provider="cpu=AcmeExecutionProvider")


def test_cuda_graphs_need_cuda() -> None:
    for accelerated in ((), ("b",)):
        with pytest.raises(DeviceUnavailableError, match=r"--cuda-graph.*emulated"):
            cut(PAIR, accelerated, cuda_graph=True)
    host = hetpart.partition(PAIR, hardware="l4", placement="all-cpu").bundle()
    with pytest.raises(DeviceUnavailableError, match="the plan has none there"):
        hetpart.Session(host, cuda_graph=True)


def test_only_what_keeps_its_addresses_is_captured() -> None:
    plan = placed(PAIR, ("b",), hardware="l4").plan
    assert [is_capturable(plan, partition) for partition in plan.partitions] == [False, True, False]
    loose = replace(plan, buffers=tuple(buffer for buffer in plan.buffers if buffer.value != "w"))
    assert not any(is_capturable(loose, partition) for partition in loose.partitions)
