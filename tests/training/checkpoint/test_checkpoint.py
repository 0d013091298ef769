from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from hetpart.errors import HetpartError, InvalidCheckpointError, InvalidOptionError
from hetpart.training.checkpoint import Checkpoint, Part, load, merge, save
from hetpart.training.checkpoint.durable import held, is_held, locked
from hetpart.training.checkpoint.layout import stored
from hetpart.training.embedding import mapped


def tensors(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(5, 7, generator=generator),
        "half": torch.randn(9, generator=generator).bfloat16(),
        "ids": torch.randint(0, 9, (3,), generator=generator),
        "step": torch.tensor(3.0),
        "none": torch.empty(0, 4),
        "last": torch.randn(2, 3, 4, 5, generator=generator).to(memory_format=torch.channels_last),
        "optimizer/exp_avg/weight": torch.randn(5, 7, generator=generator),
    }


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != ".lock")


def test_what_was_saved_is_loaded_bit_for_bit(tmp_path: Path) -> None:
    metadata = {"step": 7, "rng": [1, 2], "lr": 0.1, "name": "ü"}
    home = save(tmp_path, 7, tensors(), metadata)
    assert home == tmp_path / "step-00000007"
    checkpoint = load(tmp_path)
    assert (checkpoint.step, checkpoint.metadata) == (7, metadata)
    assert checkpoint.names == sorted(tensors())
    into = {name: torch.zeros_like(tensor) for name, tensor in tensors().items()}
    checkpoint.read_into(into)
    for name, tensor in tensors().items():
        assert torch.equal(into[name], tensor)
        assert torch.equal(checkpoint.tensor(name), tensor)
        assert into[name].stride() == tensor.stride()


def test_a_plain_model_loads_it(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = {f"optimizer/exp_avg/{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    save(tmp_path, 1, {**model.state_dict(), **state})
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(load(tmp_path).state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def test_pytorchs_distributed_checkpoint_reads_the_files(tmp_path: Path) -> None:
    from torch.distributed import checkpoint as distributed
    from torch.distributed.checkpoint import HuggingFaceStorageReader

    whole = {name: tensor.contiguous() for name, tensor in tensors().items() if tensor.numel()}
    first, *rest = whole
    save(tmp_path, 2, {first: whole[first]}, part=Part(1, 2))
    home = save(tmp_path, 2, {name: whole[name] for name in rest}, part=Part(2, 2))
    into = {name: torch.zeros_like(tensor) for name, tensor in whole.items()}
    with pytest.warns(UserWarning, match="in a single process"):
        distributed.load(into, storage_reader=HuggingFaceStorageReader(str(home)), no_dist=True)
    for name, tensor in whole.items():
        assert torch.equal(into[name], tensor)


def test_tied_weights_are_stored_once_and_read_under_both_names(tmp_path: Path) -> None:
    embedding = nn.Embedding(1000, 8)
    head = nn.Linear(8, 1000, bias=False)
    head.weight = embedding.weight
    home = save(tmp_path, 1, {"embedding.weight": embedding.weight, "head.weight": head.weight})
    assert sum(file.stat().st_size for file in home.iterdir()) < 1000 * 8 * 4 + 1000
    into = {"embedding.weight": torch.zeros(1000, 8), "head.weight": torch.zeros(1000, 8)}
    load(tmp_path).read_into(into)
    assert torch.equal(into["head.weight"], embedding.weight)
    assert torch.equal(load(tmp_path).state_dict()["head.weight"], embedding.weight)


def test_parts_of_one_storage_are_told_apart(tmp_path: Path) -> None:
    flat = torch.arange(10.0)
    save(tmp_path, 1, {"a": flat[:4], "b": flat[4:], "c": flat[:6]})
    assert {name: load(tmp_path).tensor(name).tolist() for name in "abc"} == {
        "a": [0, 1, 2, 3],
        "b": [4, 5, 6, 7, 8, 9],
        "c": [0, 1, 2, 3, 4, 5],
    }


def test_mapped_files_are_saved_and_read_into(tmp_path: Path) -> None:
    table = mapped(tmp_path / "table", (300, 4), fill=2.0)
    save(tmp_path / "checkpoints", 1, {"table": table})
    table.zero_()
    load(tmp_path / "checkpoints").read_into({"table": table})
    assert torch.equal(mapped(tmp_path / "table", (300, 4)), torch.full((300, 4), 2.0))


def test_parts_are_a_checkpoint_when_all_are_there(tmp_path: Path) -> None:
    save(tmp_path, 4, {"a": torch.ones(2)}, {"epoch": 1}, part=Part(1, 2))
    with pytest.raises(InvalidCheckpointError, match="does not hold a whole checkpoint"):
        load(tmp_path)
    save(tmp_path, 4, {"b": torch.zeros(2)}, {"epoch": 1}, part=Part(2, 2))
    assert load(tmp_path).names == ["a", "b"]
    merge(tmp_path)
    assert names(tmp_path / "step-00000004") == ["order", "part-00001-of-00001.safetensors"]
    assert (load(tmp_path).names, load(tmp_path).metadata) == (["a", "b"], {"epoch": 1})


def test_a_part_of_a_save_that_was_killed_is_not_mixed_in(tmp_path: Path) -> None:
    save(tmp_path, 4, {"a": torch.ones(2)}, {"loss": 1.0}, part=Part(1, 2))
    save(tmp_path, 4, {"b": torch.ones(2)}, {"loss": 2.0}, part=Part(2, 2))
    with pytest.raises(InvalidCheckpointError):
        load(tmp_path)
    save(tmp_path, 4, {"a": torch.zeros(2)}, {"loss": 2.0}, part=Part(1, 2))
    assert load(tmp_path).tensor("a").tolist() == [0, 0]
    assert load(tmp_path).metadata == {"loss": 2.0}


def test_parts_of_several_saves_in_a_whole_checkpoint_are_told(tmp_path: Path) -> None:
    """As versions left them that did not tell the parts of two runs from each other."""
    for number, loss in ((1, 1.0), (2, 2.0)):
        other = tmp_path / str(number)
        for index, name in ((1, "a"), (2, "b")):
            save(other, 4, {name: torch.full((2,), loss)}, {"loss": loss}, part=Part(index, 2))
    mixed = tmp_path / "1" / "step-00000004"
    shutil.copy(tmp_path / "2" / mixed.name / Part(2, 2).file_name, mixed)
    for read in (load, merge):
        with pytest.raises(InvalidCheckpointError, match="parts of several saves: part-00001-of-00002") as refused:
            read(tmp_path / "1")
        assert "load an earlier step" in refused.value.hint
    assert load(tmp_path / "2").metadata == {"loss": 2.0}


def test_the_ones_written_first_go(tmp_path: Path) -> None:
    for step in (10, 20, 30, 25):
        save(tmp_path, step, {"a": torch.full((1,), float(step))}, keep_max=2)
    assert names(tmp_path) == ["step-00000025", "step-00000030"]
    assert load(tmp_path).step == 25  # written last: the run went back to an earlier step
    assert load(tmp_path, 30).tensor("a").item() == 30


def test_which_one_was_written_last_is_known_wherever_they_are_copied_to(tmp_path: Path) -> None:
    for step in (1, 4, 3, 2, 3):
        save(tmp_path / "here", step, {"a": torch.ones(1)})
    for step in (3, 1, 2, 4):
        name = f"step-{step:08d}"
        shutil.copytree(tmp_path / "here" / name, tmp_path / "there" / name, copy_function=shutil.copyfile)
        os.utime(tmp_path / "there" / name / "part-00001-of-00001.safetensors", (step, step))
    assert load(tmp_path / "there").step == 3


def test_a_merged_checkpoint_is_as_old_as_its_parts(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        for part in (Part(1, 2), Part(2, 2)):
            save(tmp_path / "parts", step, {f"{part.index}": torch.ones(1)}, part=part)
    merge(tmp_path / "parts", 2)
    assert load(tmp_path / "parts").step == 3
    for step in (3, 1, 2):
        merge(tmp_path / "parts", step, tmp_path / "merged")
    assert load(tmp_path / "merged").step == 3
    save(tmp_path / "parts", 0, {"a": torch.ones(1)}, keep_max=2)
    assert names(tmp_path / "parts") == ["step-00000000", "step-00000003"]


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    for number in (1.0, 2.0):
        save(tmp_path, 5, {"a": torch.full((1,), number)}, keep_max=1)
    assert load(tmp_path).tensor("a").item() == 2
    assert names(tmp_path) == ["step-00000005"]


def test_a_kill_between_two_renames_leaves_the_old_one(tmp_path: Path) -> None:
    home = save(tmp_path, 5, {"a": torch.ones(1)})
    home.rename(tmp_path / "step-00000005.replaced")
    (tmp_path / "step-00000005.incomplete").mkdir()
    assert load(tmp_path).tensor("a").item() == 1
    save(tmp_path, 5, {"a": torch.zeros(1)})
    assert load(tmp_path).tensor("a").item() == 0
    assert names(tmp_path) == ["step-00000005"]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "step-00000003.incomplete").mkdir()
    (tmp_path / "step-00000003.incomplete" / "part-00001-of-00001.temporary").write_bytes(b"half")
    save(tmp_path, 4, {"a": torch.ones(1)})
    assert names(tmp_path) == ["step-00000004"]


@pytest.mark.parametrize("count", [1, 2])
def test_half_a_file_of_a_killed_writer_is_no_part_of_a_checkpoint(tmp_path: Path, count: int) -> None:
    """safetensors writes to a name of its own first, and leaves that when it is killed."""
    parts = [Part(index + 1, count) for index in range(count)]
    (tmp_path / "step-00000004.incomplete").mkdir()
    (tmp_path / "step-00000004.incomplete" / ".tmp1qW9zx").write_bytes(b"half")
    (tmp_path / "step-00000003.incomplete").mkdir()
    (tmp_path / "step-00000005.incomplete").mkdir()  # another process of several may be ahead
    for part in parts:
        save(tmp_path, 4, {f"{part.index}": torch.ones(1)}, part=part)
    assert names(tmp_path) == ["step-00000004", *(["step-00000005.incomplete"] if count > 1 else [])]
    assert names(tmp_path / "step-00000004") == ["order", *(part.file_name for part in parts)]


def test_a_kill_while_an_old_checkpoint_is_removed_leaves_nothing_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(step: int) -> None:
        for part in (Part(1, 2), Part(2, 2)):
            save(tmp_path, step, {f"{part.index}": torch.ones(1)}, part=part, keep_max=2)

    def half_removed(folder: Path, **_: Any) -> None:
        if folder.exists():
            next(folder.iterdir()).unlink()
            raise KeyboardInterrupt

    both(1)
    both(2)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", half_removed)
        with pytest.raises(KeyboardInterrupt):
            both(3)
    assert load(tmp_path).step == 3
    assert len(names(tmp_path)) == 3
    both(4)
    assert names(tmp_path) == ["step-00000003", "step-00000004"]
    (tmp_path / "step-00000003.replaced").mkdir()  # a kill after the new one got its name
    both(5)
    assert names(tmp_path) == ["step-00000004", "step-00000005"]


def test_a_merge_leaves_alone_what_others_write(tmp_path: Path) -> None:
    for part in (Part(1, 2), Part(2, 2)):
        save(tmp_path, 1, {f"{part.index}": torch.ones(1)}, part=part)
    save(tmp_path, 2, {"1": torch.ones(1)}, part=Part(1, 2))
    merge(tmp_path, 1)
    save(tmp_path, 2, {"2": torch.ones(1)}, part=Part(2, 2))
    assert load(tmp_path).step == 2


def test_what_a_process_writes_to_is_not_removed_and_what_one_left_is(tmp_path: Path) -> None:
    merging, other = tmp_path / "step-00000001.merged.incomplete", tmp_path / "step-00000002.incomplete"
    save(tmp_path / "elsewhere", 1, {"a": torch.ones(1)})
    merging.mkdir()
    other.mkdir()
    with held(merging), held(other):
        save(tmp_path, 3, {"a": torch.ones(1)})
        assert names(tmp_path) == ["elsewhere", merging.name, other.name, "step-00000003"]
    merge(tmp_path / "elsewhere", 1, tmp_path)
    assert names(tmp_path) == ["elsewhere", "step-00000001", other.name, "step-00000003"]
    save(tmp_path, 4, {"a": torch.ones(1)})
    assert names(tmp_path) == ["elsewhere", "step-00000001", "step-00000003", "step-00000004"]


def test_what_is_read_stays_what_it_was(tmp_path: Path) -> None:
    """Saved again under the same path, or removed."""
    save(tmp_path, 1, {"a": torch.zeros(1), "b": torch.zeros(1)}, {"k": 0})
    checkpoint = load(tmp_path)
    save(tmp_path, 1, {"a": torch.ones(1), "b": torch.ones(1)}, {"k": 1})
    again = load(tmp_path)
    save(tmp_path, 2, {"a": torch.ones(1)}, keep_max=1)
    for one, value in ((checkpoint, 0), (again, 1)):
        assert (one.metadata, one.tensor("a").item(), one.tensor("b").item()) == ({"k": value}, value, value)
        target = {"a": torch.full((1,), 9.0), "b": torch.full((1,), 9.0)}
        one.read_into(target)
        assert [tensor.item() for tensor in target.values()] == [value, value]


def test_a_load_waits_for_names_that_change(tmp_path: Path) -> None:
    """Else it would find the checkpoint before the one that is just being replaced."""
    save(tmp_path, 1, {"a": torch.zeros(1)})
    home = save(tmp_path, 2, {"a": torch.ones(1)})
    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path):
            away = home.rename(tmp_path / "away")
            found = pool.submit(load, tmp_path)
            sleep(0.2)
            away.rename(home)
        assert found.result().step == 2


def test_a_folder_without_a_lock_can_be_read(tmp_path: Path) -> None:
    """Such as a copy that nobody may write to."""
    save(tmp_path, 1, {"a": torch.ones(1)})
    (tmp_path / ".lock").unlink()
    assert load(tmp_path).step == 1
    assert not (tmp_path / ".lock").exists()


@pytest.mark.parametrize(("step", "kept"), [(1, [1]), (2, [2])], ids=["saved again", "removed"])
def test_a_merge_brings_back_nothing(
    step: int, kept: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has read was saved again, or removed, before it could write."""
    for part in (Part(1, 2), Part(2, 2)):
        save(tmp_path, 1, {f"{part.index}": torch.zeros(1)}, part=part)

    def before_another(folder: Path, number: int | None) -> Checkpoint:
        found = load(folder, number)
        save(folder, step, {"1": torch.ones(1)}, keep_max=1)
        return found

    monkeypatch.setattr(sys.modules[load.__module__], "load", before_another)
    with pytest.raises(HetpartError, match=r"the checkpoint of step 1 .* another process has saved it again, or rem"):
        merge(tmp_path, 1)
    assert [one.step for one in stored(tmp_path)] == kept
    assert load(tmp_path).tensor("1").item() == 1
    assert names(tmp_path) == [f"step-{step:08d}"]


def test_a_process_that_is_forked_while_a_checkpoint_gets_its_name_keeps_no_lock(tmp_path: Path) -> None:
    with locked(tmp_path), held(tmp_path):
        child = os.fork()
        if not child:
            signal.pause()
    try:
        assert not is_held(tmp_path)
        with (tmp_path / ".lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("folder", ["a\0b", "x" * 300])
def test_what_can_be_no_path_is_said(folder: str, tmp_path: Path) -> None:
    save(tmp_path, 1, {"a": torch.ones(1)})
    uses = (
        lambda: save(folder, 1, {"a": torch.ones(1)}), lambda: load(folder), lambda: merge(tmp_path, into=folder)
    )  # fmt: skip
    for use in uses:
        with pytest.raises(InvalidOptionError, match=r"cannot be .*: (embedded null byte|File name too long)"):
            use()


def test_a_part_that_another_process_took_away_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that saves whole checkpoints to the same folder does; nothing returns as if the part were there."""

    @contextmanager
    def later(folder: Path) -> Generator[None]:
        shutil.rmtree(folder / "step-00000002.incomplete")
        yield

    monkeypatch.setattr(sys.modules[save.__module__], "locked", later)
    with pytest.raises(HetpartError, match="another process removed part-00001-of-00002") as refused:
        save(tmp_path, 2, {"1": torch.ones(1)}, part=Part(1, 2))
    assert "save it again" in refused.value.hint
    assert names(tmp_path) == []


def test_who_may_read_the_folder_may_read_its_files(tmp_path: Path) -> None:
    home = save(tmp_path, 1, {"a": torch.ones(1)})
    assert {file.stat().st_mode & 0o777 for file in home.iterdir()} == {home.stat().st_mode & 0o666}


@pytest.mark.parametrize("content", [b"", b"garbage that is no safetensors file at all"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    home = save(tmp_path, 1, {"a": torch.ones(1)})
    (home / "part-00001-of-00001.safetensors").write_bytes(content)
    with pytest.raises(InvalidCheckpointError, match=r"part-00001-of-00001\.safetensors cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("into", "message"),
    [
        ({"a": torch.zeros(2), "b": torch.zeros(1)}, r"lacks 1 names \['b'\] and has 0"),
        ({}, r"lacks 0 names \[\] and has 1 that are not wanted \['a'\]"),
        ({"a": torch.zeros(3)}, r"a, step 1: torch.float32 \[2\] in the checkpoint, torch.float32 \[3\] here"),
        ({"a": torch.zeros(2, dtype=torch.float64)}, "torch.float64"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, into: dict[str, Tensor], message: str) -> None:
    save(tmp_path, 1, {"a": torch.ones(2)})
    with pytest.raises(InvalidCheckpointError, match=message):
        load(tmp_path).read_into(into)
    assert all(not tensor.any() for tensor in into.values())


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpointError, match="does not hold a whole checkpoint"):
        load(tmp_path / "nothing")
    save(tmp_path, 1, {"a": torch.ones(2)})
    with pytest.raises(InvalidCheckpointError, match="of step 2") as error:
        load(tmp_path, 2)
    assert "[1]" in error.value.hint
    with pytest.raises(InvalidCheckpointError, match="has no tensor 'b'"):
        load(tmp_path).tensor("b")
    for wrong in (0, "3", True):
        with pytest.raises(InvalidOptionError, match=f"keep_max cannot be {wrong!r}"):
            save(tmp_path, 2, {}, keep_max=cast("Any", wrong))
    with pytest.raises(InvalidOptionError, match="part 3 of 2"):
        Part(3, 2)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HetpartError, match="cannot be written"):
        save(tmp_path / "file", 1, {"a": torch.ones(1)})


def test_metadata_is_json(tmp_path: Path) -> None:
    home = save(tmp_path, 1, {}, {"nested": {"a": [1, None, True]}})
    assert load(tmp_path).metadata == json.loads('{"nested": {"a": [1, null, true]}}')
    assert load(tmp_path).names == []
    assert home.exists()


@contextmanager
def room_for(nbytes: int) -> Generator[None]:
    """No file gets larger, as on a disk that is full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_what_was_there_and_nothing_half_written(tmp_path: Path) -> None:
    save(tmp_path, 1, tensors())
    with room_for(1000), pytest.raises(HetpartError, match=r"step-00000002 cannot be written: .*too large"):
        save(tmp_path, 2, tensors() | {"more": torch.zeros(1000)})
    assert load(tmp_path).step == 1
    assert not [*tmp_path.rglob("*.temporary"), *tmp_path.rglob("*.incomplete")]
    save(tmp_path, 2, tensors())
    assert load(tmp_path).step == 2


def test_a_header_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    (home := tmp_path / "step-00000001").mkdir()
    save_file({"a": torch.ones(2)}, home / Part().file_name, {"hetpart.metadata": "{not json"})
    with pytest.raises(InvalidCheckpointError, match="cannot be read: Expecting property name"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": -1}, "step cannot be -1"),
        ({"step": 1.5}, "step cannot be 1.5"),
        ({"step": torch.tensor(1)}, r"step cannot be tensor\(1\)"),
        ({"tensors": {"a": 3}}, "'a' is of the type int"),
        ({"tensors": {"a": torch.ones(2, device="meta")}}, "'a' is a tensor on the meta device"),
        ({"tensors": {"a": torch.eye(2).to_sparse()}}, "'a' is a tensor of the layout sparse_coo"),
        ({"tensors": {1: torch.ones(2)}}, "1 is a name that is no text"),
        ({"tensors": [torch.ones(2)]}, "tensors cannot be a list"),
        ({"metadata": {"a": torch.ones(2)}}, "metadata is no JSON: Object of type Tensor"),
        ({"metadata": [1]}, "metadata is no JSON"),
    ],
)
def test_what_no_checkpoint_holds_is_refused_before_anything_is_written(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        save(tmp_path, **{"step": 1, "tensors": {}, **changed})
    assert not list(tmp_path.iterdir())


def test_a_step_may_be_numpys(tmp_path: Path) -> None:
    save(tmp_path, cast("Any", np.int64(3)), {"a": torch.ones(2)})
    assert load(tmp_path).step == 3


def test_why_there_is_no_whole_checkpoint_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, why in (("nothing", "there is no such folder"), ("file", "it is a file"), ("empty", "nor a part of one")):
        with pytest.raises(InvalidCheckpointError, match=why):
            load(tmp_path / name)
    for number in (1, 2, 4):
        save(tmp_path / "parts", 7, {"a": torch.ones(2)}, part=Part(number, 4))
    with pytest.raises(InvalidCheckpointError, match=r"step-00000007\.incomplete has 3 of 4 parts, and lacks 3\n"):
        load(tmp_path / "parts", 7)
    home = save(tmp_path / "parts", 7, {"a": torch.ones(2)}, part=Part(3, 4))
    with pytest.raises(InvalidCheckpointError, match="it holds the parts of one") as error:
        load(home)
    assert error.value.hint == f"give the folder that it lies in, {home.parent}"
    (home / "part-00002-of-00004.safetensors").unlink()
    with pytest.raises(InvalidCheckpointError, match=r"step-00000007 has 3 of 4 parts, and lacks 2\n"):
        load(tmp_path / "parts")
