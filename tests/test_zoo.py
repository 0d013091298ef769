"""The zoo's models are what their papers and their numbers say they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from benchmarks import zoo
from benchmarks.models.dlrm import CRITEO_KAGGLE
from benchmarks.models.exported import FAMILIES, Traced

SMALL = [name for name, model in zoo.ZOO.items() if name.endswith("-tiny") and not model.needs_torch]
EXPORTED = [name for name, model in zoo.ZOO.items() if name.endswith("-tiny") and model.needs_torch]

Find = Callable[[str], Path]


def _traced(name: str) -> Traced:
    options = dict(zoo.ZOO[name].options)
    return FAMILIES[options.pop("family")](seed=0, **options)


def _weight_elements(path: Path) -> int:
    graph = onnx.load(path, load_external_data=False).graph
    return sum(int(np.prod(tensor.dims)) for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_model_is_legal_and_its_results_finite(name: str, zoo_model: Find) -> None:
    path = zoo_model(name)
    onnx.checker.check_model(str(path), full_check=True)
    zoo.verify(name, path)


def test_two_builds_are_equal(tmp_path: Path) -> None:
    first, second = (zoo.prepare("dlrm-tiny", tmp_path / part) for part in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert first.with_name("dlrm-tiny.onnx.data").read_bytes() == second.with_name("dlrm-tiny.onnx.data").read_bytes()


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "ZOO", {"broken": zoo.ZooModel("benchmarks.models.light:build", {"source": "absent"})})
    with pytest.raises(FileNotFoundError):
        zoo.prepare("broken", tmp_path)
    assert not list(tmp_path.iterdir())


def test_routed_and_masked_experts_agree(zoo_model: Find) -> None:
    """The two formulations share weights and must share results: each token goes to the same two experts."""
    paths = [zoo_model(name) for name in ("moe-tiny", "moe-dense-tiny")]
    feeds = zoo.random_feeds("moe-tiny", paths[0])
    routed, masked = (onnxruntime.InferenceSession(path).run(None, feeds)[0] for path in paths)
    np.testing.assert_allclose(routed, masked, rtol=1e-4, atol=1e-5)


def test_wide_and_deep_counts_the_parameters_of_the_mindspore_model(tmp_path: Path) -> None:
    """16.2M table weights at a vocabulary of 200,000, and an MLP of 3120-1024-512-256-128-1."""
    from examples import wide_and_deep

    path = wide_and_deep.build(tmp_path / "model.onnx", sparse=True)
    tables = 200_000 * 81
    perceptron = 3120 * 1024 + 1024 * 512 + 512 * 256 + 256 * 128 + 128 + 1024 + 512 + 256 + 128 + 1
    assert _weight_elements(path) == tables + perceptron


def test_dlrm_has_the_rows_of_criteo_kaggle(zoo_model: Find) -> None:
    graph = onnx.load(zoo_model("dlrm-tiny"), load_external_data=False).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    assert sum(CRITEO_KAGGLE) == 33_762_577
    assert shapes["top.fc0.weight"] == (367, 512)
    assert shapes["table.2"] == (1_000, 16)


def test_a_sparse_table_takes_no_disk_space(tmp_path: Path) -> None:
    from examples import wide_and_deep

    data = wide_and_deep.build(tmp_path / "model.onnx", vocabulary=1_000_000, sparse=True).with_name("model.onnx.data")
    assert data.stat().st_size > 324_000_000
    assert data.stat().st_blocks * 512 < 50_000_000


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_computes_what_torch_does(name: str, zoo_model: Find) -> None:
    path = zoo_model(name)
    onnx.checker.check_model(str(path), full_check=True)
    traced = _traced(name)
    feeds = zoo.random_feeds(name, path)
    tensors = iter(torch.from_numpy(feeds[input_name]) for input_name in traced.input_names)
    arguments = [
        next(tensors) if isinstance(example, torch.Tensor) else tuple(next(tensors) for _ in example)
        for example in traced.inputs.values()
    ]
    with torch.no_grad():
        expected = traced.module.eval()(*arguments)[:]
    results = onnxruntime.InferenceSession(path).run(None, feeds)
    for result, tensor in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-4, atol=1e-4)


def test_a_cached_gpt2_continues_like_one_without_a_cache(zoo_model: Find) -> None:
    """Token by token with its state fed back, it gives the logits of the whole sequence at once."""
    model = _traced("gpt2-tiny").module.model.eval()
    session = onnxruntime.InferenceSession(zoo_model("gpt2-tiny"))
    ids = torch.arange(5, 11)[None]
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits.numpy()
    feeds = {name: np.zeros_like(feed) for name, feed in zoo.random_feeds("gpt2-tiny", zoo_model("gpt2-tiny")).items()}
    for position in range(ids.shape[1]):
        feeds |= {"input_ids": ids[:, position, None].numpy(), "positions": np.full((1, 1), position)}
        results = dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))
        feeds |= {before: results[after] for before, after in zoo.ZOO["gpt2-tiny"].states}
        np.testing.assert_allclose(results["logits"][:, 0], expected[:, position], rtol=1e-4, atol=1e-4)
