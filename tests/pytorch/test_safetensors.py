"""Weights wherever files of a model may lie: in subfolders, behind links, named by an index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import hetpart
from hetpart.errors import InvalidModelError
from hetpart.frontend.safetensors import stored_weights
from tests.pytorch.models import mlp

INDEX = "model.safetensors.index.json"


def write(folder: Path, names: tuple[str, str]) -> None:
    """The weights of ``mlp`` in two files and an index."""
    state = mlp().module.state_dict()
    places = {name: names[number % 2] for number, name in enumerate(state)}
    for file in names:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        save_file({name: state[name] for name, place in places.items() if place == file}, folder / file)
    (folder / INDEX).write_text(json.dumps({"weight_map": places}))


def assert_runs(weights: Path, bundle: Path) -> None:
    case = mlp()
    with torch.device("meta"):
        module = type(case.module)().eval()
    planned = hetpart.partition(module, args=case.args, weights=weights, hardware="emulated", placement="random:1")
    torch.testing.assert_close(planned.to_module(emulate=True)(*case.args), case.result())
    (given,) = planned.plan.inputs
    for inside in (False, True):
        with hetpart.Session(planned.save(bundle, self_contained=inside), emulate=True) as session:
            (made,) = session.run(None, {given.name: case.args[0].numpy()})
        torch.testing.assert_close(torch.from_numpy(made), case.result())


@pytest.mark.parametrize("named", ["", INDEX])
def test_an_index_may_name_files_in_subfolders(named: str, tmp_path: Path) -> None:
    write(tmp_path, ("first/a.safetensors", "second/third/b.safetensors"))
    assert_runs(tmp_path / named, tmp_path / "mlp.hetpart")


def test_files_may_be_links(tmp_path: Path) -> None:
    """As all are in the cache of Hugging Face."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123"
    write(blobs, ("cafe", "beef"))
    snapshot.mkdir(parents=True)
    places = json.loads((blobs / INDEX).read_text())["weight_map"]
    names = {"cafe": "a.safetensors", "beef": "b.safetensors"}
    for blob, name in names.items():
        (snapshot / name).symlink_to(blobs / blob)
    (snapshot / INDEX).write_text(
        json.dumps({"weight_map": {weight: names[place] for weight, place in places.items()}})
    )
    assert_runs(snapshot, tmp_path / "mlp.hetpart")


@pytest.mark.parametrize("place", ["../b.safetensors", "/b.safetensors", "inside/../../b.safetensors"])
def test_an_index_does_not_lead_out_of_its_folder(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "inside").mkdir(parents=True)
    save_file({"a": torch.ones(2)}, tmp_path / "b.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": place}}))
    with pytest.raises(InvalidModelError, match=rf"'{place}', which is to hold weights, lies outside of") as refused:
        stored_weights(folder)
    assert refused.value.hint


@pytest.mark.parametrize("text", ['{"weights": {}}', "[1]", '{"weight_map": ["a"]}', "3", "{"])
def test_what_is_no_index_is_refused_in_words(text: str, tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "b.safetensors")
    (tmp_path / INDEX).write_text(text)
    said = r"it has no weight_map, an object of files by tensor" if text != "{" else "Expecting property name"
    with pytest.raises(InvalidModelError, match=f"is no index of safetensors files: {said}") as refused:
        stored_weights(tmp_path)
    assert refused.value.hint
