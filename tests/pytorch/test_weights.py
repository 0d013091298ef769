"""Weights that lie in files, in memory, or nowhere yet."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

import hetpart
from hetpart.errors import HetpartError, InvalidBundleError, InvalidModelError, InvalidOptionError
from hetpart.frontend.safetensors import stored_weights
from tests.pytorch.models import MLP, Case, Shared, mlp, shared
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"


def without_storage(case: Case) -> Case:
    with torch.device("meta"):
        module = type(case.module)()
    return Case(module.eval(), case.args, case.kwargs, case.dynamic_shapes)


def write_sharded(module: torch.nn.Module, folder: Path) -> None:
    """Every weight in a file of its own, with the index that is written beside large models."""
    folder.mkdir()
    names: dict[str, str] = {}
    for number, (name, tensor) in enumerate(module.named_parameters()):
        names[name] = f"model-{number:05d}.safetensors"
        save_file({name: tensor.detach()}, folder / names[name], metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    save_file({"fc1.weight": torch.zeros(1)}, folder / "other.safetensors")


def test_a_model_without_weights_is_planned_as_the_one_with_them() -> None:
    case = mlp()
    empty = without_storage(case)
    real, planned = (hetpart.partition(one.module, args=one.args, hardware=EMULATED) for one in (case, empty))
    assert planned.plan.decisions == real.plan.decisions
    assert planned.plan.devices == real.plan.devices
    for use in (planned.session, planned.bundle, lambda: planned.save("never.hetpart")):
        with pytest.raises(HetpartError, match=r"without the content of its weights: 'fc1\.weight'") as refused:
            use()
        assert "weights=" in refused.value.hint


@pytest.mark.parametrize("planned_within", [True, False])
def test_fake_tensors_stand_for_weights_that_lie_in_files(planned_within: bool, tmp_path: Path) -> None:
    """Of a decoder with frequencies that no file keeps, which follow from its configuration."""
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    real, call = LlamaForCausalLM(config).eval(), {"input_ids": torch.arange(5)[None], "use_cache": False}
    real.save_pretrained(tmp_path)
    with FakeTensorMode():
        fake = LlamaForCausalLM(config).eval()
        given = {**call, "input_ids": torch.zeros(1, 5, dtype=torch.long)}
        planned = _planned(fake, given, tmp_path) if planned_within else None
    planned = planned or _planned(fake, given, tmp_path)
    with torch.no_grad():
        expected = real(**call).logits
    assert_equal((planned.to_module(emulate=True)(**call).logits,), (expected,))


def _planned(module: torch.nn.Module, call: dict[str, Any], weights: Path) -> hetpart.PartitionedModel:
    return hetpart.partition(module, kwargs=call, weights=weights, hardware=EMULATED, placement="random:1")


class Alike(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_weights_of_one_form_are_their_own_in_a_program_without_weights(tmp_path: Path) -> None:
    """Which lie in one storage once the program has been in a file."""
    real, x = Alike().eval(), torch.linspace(-1, 1, 8).reshape(2, 4)
    save_file(real.state_dict(), tmp_path / "m.safetensors")
    with torch.device("meta"):
        program = torch.export.export(Alike().eval(), (x.to("meta"),))
    torch.export.save(program, tmp_path / "m.pt2")
    planned = hetpart.partition(tmp_path / "m.pt2", weights=tmp_path, hardware=EMULATED)
    assert_equal(planned.to_module(emulate=True)(x), real(x).detach())


@pytest.mark.parametrize(
    ("config", "kind"),
    [(LlamaConfig, LlamaForCausalLM), (Qwen2Config, Qwen2ForCausalLM)],
    ids=["own head", "tied head"],
)
def test_what_a_program_without_weights_lost_is_refused_with_lines_that_work(
    config: Any, kind: Any, tmp_path: Path
) -> None:
    known = config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=kind is Qwen2ForCausalLM,
    )  # fmt: skip
    real, call = kind(known).eval(), {"input_ids": torch.arange(5)[None], "use_cache": False}
    real.save_pretrained(tmp_path)
    with torch.device("meta"):
        given = {**call, "input_ids": torch.zeros(1, 5, dtype=torch.int64)}
        program = torch.export.export(kind(known).eval(), (), given, strict=False)
    torch.export.save(program, tmp_path / "lost.pt2")
    with pytest.raises(InvalidModelError, match="inv_freq") as refused:
        hetpart.partition(tmp_path / "lost.pt2", weights=tmp_path, hardware=EMULATED)
    _, made, planned = refused.value.hint.splitlines()
    names: dict[str, Any] = {"torch": torch, "transformers": transformers, "hetpart": hetpart, "call": call}
    exec(f"{made}\nplanned = {planned.replace('{…}', 'call')}", names)
    with torch.no_grad():
        assert_equal(names["planned"].to_module()(**call).logits, real(**call).logits)


def test_weights_are_run_from_the_files_they_lie_in(tmp_path: Path) -> None:
    case = mlp()
    write_sharded(case.module, tmp_path / "weights")
    empty = without_storage(case)
    planned = hetpart.partition(
        empty.module, args=empty.args, weights=tmp_path / "weights", hardware=EMULATED, placement="random:1"
    )
    assert_equal(planned.to_module(emulate=True)(*case.args), case.result())
    bundle = planned.save(tmp_path / "mlp.hetpart")
    assert sum(file.stat().st_size for file in bundle.iterdir()) < 20_000 + 2 * len((bundle / "plan.json").read_bytes())
    with hetpart.Session(bundle, emulate=True) as session:
        (made,) = session.run(None, {"x": case.args[0].numpy()})
    assert_equal(torch.from_numpy(made), case.result())
    (tmp_path / "weights" / "model-00000.safetensors").unlink()
    with pytest.raises(InvalidBundleError, match="model-00000"):
        hetpart.Session(bundle, emulate=True)


@pytest.mark.parametrize("nbytes", [16, 10_000])
def test_weights_are_as_they_look_where_pytorch_has_put_off_a_negation(nbytes: int) -> None:
    """The exporter reads what lies in memory."""

    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            size = nbytes // 8
            self.register_buffer("turned", torch.randn(size, dtype=torch.complex64).conj())
            self.register_buffer("height", torch.view_as_real(self.turned.conj())[:1].conj())
            self.register_buffer("depth", torch.randn(1, size, dtype=torch.complex64).T[:, 0].conj().imag[:1])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real((x * self.turned).resolve_conj()) * self.depth + self.height

    module, x = Held(), torch.randn(3, nbytes // 8)
    planned = hetpart.partition(module, args=(x,), hardware=EMULATED, placement="random:1")
    assert_equal(planned.to_module(emulate=True)(x), module(x))


def test_tied_weights_count_once_and_lie_under_either_name(tmp_path: Path) -> None:
    case = shared()
    graph = hetpart.load(case.module, args=case.args)
    table = 100 * 64 * 4
    assert sum(weight.nbytes for weight in graph.weights if weight.nbytes == table) <= 2 * table  # one is transposed
    held = hetpart.export(case.module, args=case.args)
    names = {tensor.name for tensor in held.loaded.proto.graph.initializer}
    assert len(names & {"embed.weight", "head.weight"}) == 1
    for name in ("embed.weight", "head.weight"):
        stored = {
            "step.weight": case.module.get_parameter("step.weight"),
            "step.bias": case.module.get_parameter("step.bias"),
        }
        save_file({**stored, name: case.module.get_parameter("embed.weight")}, tmp_path / "all.safetensors")
        empty = without_storage(case)
        assert isinstance(empty.module, Shared)
        planned = hetpart.partition(
            empty.module, args=case.args, weights=tmp_path / "all.safetensors", hardware=EMULATED
        )
        assert_equal(planned.to_module(emulate=True)(*case.args), case.result())


def test_a_module_in_memory_is_run_and_saved_with_its_weights(tmp_path: Path) -> None:
    case = mlp()
    planned = hetpart.partition(case.module, args=case.args, hardware=EMULATED, placement="random:1")
    bundle = planned.save(tmp_path / "mlp.hetpart")
    expected = case.result()
    del planned, case
    with hetpart.Session(bundle, emulate=True) as session:
        (made,) = session.run(None, {"x": mlp().args[0].numpy()})
    assert_equal(torch.from_numpy(made), expected)


def test_files_that_do_not_fit_the_module_are_refused(tmp_path: Path) -> None:
    case = without_storage(mlp())

    def refusal(hint: str = "build the module") -> str:
        with pytest.raises(InvalidModelError) as refused:
            hetpart.partition(case.module, args=case.args, weights=tmp_path, hardware=EMULATED)
        assert hint in str(refused.value.hint)
        return refused.value.message

    file = tmp_path / "m.safetensors"
    state = {name: tensor.contiguous() for name, tensor in MLP().state_dict().items()}
    save_file({name: tensor for name, tensor in state.items() if name != "fc2.weight"}, file)
    assert "lack weights of MLP: 'fc2.weight'" in refusal()
    save_file({name.replace("fc2", "experts.0"): tensor for name, tensor in state.items()}, file)
    assert "'fc2.bias', and have others: 'experts.0." in refusal("save_original_format=False")
    save_file({**state, "fc2.weight": torch.zeros(3, 3)}, file)
    assert "FLOAT[3, 3]" in refusal()
    save_file({name: tensor.half() for name, tensor in state.items()}, file)
    assert "FLOAT16" in refusal()


@pytest.mark.parametrize("others", [["old.scale"], [f"z.{number}" for number in range(5)]])
def test_names_that_the_module_does_not_have_are_noted(others: list[str], tmp_path: Path) -> None:
    """As ``load_state_dict`` calls them unexpected."""
    stored = {**MLP().state_dict(), **{name: torch.zeros(1) for name in others}}
    save_file(stored, tmp_path / "m.safetensors")
    planned = hetpart.partition(MLP().eval(), args=mlp().args, weights=tmp_path, hardware=EMULATED)
    assert MLP().load_state_dict(stored, strict=False).unexpected_keys == others
    (note,) = [note for note in planned.plan.notes if note.startswith(f"the files have {len(others)} tensor")]
    assert all(repr(name) in note for name in others[:3])


class Scaled(torch.nn.Module):
    """A parameter, buffers of both kinds, and a constant, each of which is in the result."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.register_buffer("scale", torch.tensor(3.0))
        self.register_buffer("offset", torch.full((4,), 2.0), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) * self.scale + self.offset + self.constant


FILES_THAT_LACK: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]] = {
    "prefixed but for one": lambda state: {name if name == "scale" else f"m.{name}": state[name] for name in state},
    "prefixed twice": lambda state: {f"{model}.{name}": state[name].clone() for model in "ab" for name in state},
    "another model's": lambda _: {"z": torch.ones(3)},
    "no tensor": lambda _: {},
    "a parameter less": lambda state: {name: state[name] for name in state if name != "fc.weight"},
    "a buffer less": lambda state: {name: state[name] for name in state if name != "scale"},
}


@pytest.mark.parametrize("kind", FILES_THAT_LACK)
def test_what_files_lack_is_not_taken_from_the_module(kind: str, tmp_path: Path) -> None:
    """As ``load_state_dict`` refuses them."""
    module = Scaled().eval()
    stored = FILES_THAT_LACK[kind](dict(module.state_dict()))
    with pytest.raises(RuntimeError, match="Missing key"):
        Scaled().load_state_dict(stored)
    save_file(stored, tmp_path / "m.safetensors")
    with pytest.raises(InvalidModelError, match="the files lack weights of Scaled: '"):
        hetpart.partition(module, args=(torch.ones(2, 3),), weights=tmp_path, hardware=EMULATED)


@pytest.mark.parametrize("traced", [False, True])
def test_the_module_keeps_what_files_never_hold(traced: bool, tmp_path: Path) -> None:
    loaded, x = Scaled().eval(), torch.randn(2, 3)
    save_file(loaded.state_dict(), tmp_path / "m.safetensors")
    module = torch.fx.symbolic_trace(Scaled().eval()) if traced else Scaled().eval()
    planned = hetpart.partition(module, args=(x,), weights=tmp_path, hardware=EMULATED)
    with torch.no_grad():
        assert_equal(planned.to_module(emulate=True)(x), loaded(x))


def test_a_folder_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    """Of every tensor there is an older one: in another file, in the same file as another one, under another index."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    config = LlamaConfig(**sizes, num_attention_heads=2, use_cache=False)
    module, call = LlamaForCausalLM(config).eval(), {"input_ids": torch.arange(5)[None]}
    older = {name: tensor + 1 for name, tensor in module.state_dict().items()}
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    module.save_pretrained(whole)
    save_file(older, whole / "z.safetensors")
    module.save_pretrained(sharded, max_shard_size="20KB")
    save_file(older, sharded / "consolidated.safetensors")
    index = {"weight_map": dict.fromkeys(older, "consolidated.safetensors")}
    (sharded / "a.safetensors.index.json").write_text(json.dumps(index))
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    for folder in (whole, sharded):
        loaded = LlamaForCausalLM.from_pretrained(folder).eval()
        planned = _planned(LlamaForCausalLM(config).eval(), call, folder)
        with torch.no_grad():
            assert_equal(planned.to_module(emulate=True)(**call).logits, loaded(**call).logits)


def test_every_tensor_is_read_where_the_index_says(tmp_path: Path) -> None:
    new, old = {"a": torch.ones(2), "b": torch.ones(3)}, {"a": torch.zeros(2), "b": torch.zeros(3)}
    for number, name in enumerate("ab"):
        save_file({**old, name: new[name]}, tmp_path / f"m-{number}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    for files in ({"a": "m-0.safetensors", "b": "m-1.safetensors"}, {"a": "m-1.safetensors", "b": "m-0.safetensors"}):
        index.write_text(json.dumps({"weight_map": files}))
        extents = stored_weights(tmp_path).extents
        assert {name: extent.location for name, extent in extents.items()} == files
        for name, extent in extents.items():
            with safe_open(tmp_path / files[name], "pt") as file:
                expected = file.get_tensor(name).numpy().tobytes()
            assert (tmp_path / extent.location).read_bytes()[extent.offset :][: extent.nbytes] == expected


def test_files_that_do_not_say_which_tensor_is_meant_are_refused(tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(InvalidModelError) as refused:
            stored_weights(tmp_path)
        assert refused.value.hint
        return refused.value.message

    for name in ("m", "n"):
        save_file({"a": torch.ones(2), name: torch.ones(1)}, tmp_path / f"{name}.safetensors")
    assert "m.safetensors and n.safetensors" in refusal()
    for name in ("m", "n"):
        index = {"weight_map": {"a": "m.safetensors", "n": "m.safetensors"}}
        (tmp_path / f"{name}.safetensors.index.json").write_text(json.dumps(index))
    assert "m.safetensors.index.json and n.safetensors.index.json" in refusal()
    (tmp_path / "n.safetensors.index.json").unlink()
    assert "says that 'n' lies in m.safetensors, which lacks it" in refusal()


def test_experts_are_read_from_files_that_have_the_module_s_own_names(tmp_path: Path) -> None:
    """By default transformers writes every expert apart, and stacks them when it loads the files."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 4}
    config = MixtralConfig(**sizes, **heads, use_cache=False)
    loaded, call = MixtralForCausalLM(config).eval(), {"input_ids": torch.arange(5)[None]}
    loaded.save_pretrained(tmp_path, save_original_format=False)
    with torch.device("meta"):
        empty = MixtralForCausalLM(config).eval()
    planned = hetpart.partition(empty, kwargs=call, weights=tmp_path, hardware=EMULATED)
    with torch.no_grad():
        assert_equal(planned.to_module(emulate=True)(**call).logits, loaded(**call).logits)


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_save_are_refused_as_what_they_are(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.ones(4)}, file, _use_new_zipfile_serialization=zipped)
    for path in (file, tmp_path):
        with pytest.raises(InvalidModelError, match=r"of torch\.save") as refused:
            stored_weights(path)
        assert "safetensors.torch.save_file" in str(refused.value.hint)


def test_weights_that_are_no_path_are_refused() -> None:
    case = mlp()
    for weights in (3, {"fc1.weight": torch.ones(1)}):
        with pytest.raises(InvalidOptionError, match=f"weights is of type {type(weights).__name__}"):
            hetpart.partition(case.module, args=case.args, weights=weights)  # pyright: ignore[reportArgumentType]


def test_files_that_are_no_safetensors_are_refused(tmp_path: Path) -> None:
    file, state = tmp_path / "m.safetensors", {"a": torch.ones(4)}

    def refusal(path: Path = tmp_path) -> str:
        with pytest.raises(InvalidModelError) as refused:
            stored_weights(path)
        assert refused.value.hint
        return refused.value.message

    assert "holds no .safetensors file" in refusal()
    assert "does not exist" in refusal(tmp_path / "none")
    save_file(state, file)
    extent = stored_weights(file).extents["a"]
    assert file.read_bytes()[extent.offset :][: extent.nbytes] == state["a"].numpy().tobytes()
    file.write_bytes(file.read_bytes()[:-8])
    assert "belong to it" in refusal()
    file.write_bytes(struct.pack("<Q", 2**40) + b"{}")
    assert "header" in refusal()
    for text in ("[]", '{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}}', '{"a": 3}'):
        file.write_bytes(struct.pack("<Q", len(text)) + text.encode() + bytes(8))
        assert "is no safetensors file" in refusal()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../m.safetensors"}}))
    assert "lies outside of" in refusal()
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "n.safetensors"}}))
    assert "are not there" in refusal()
    (tmp_path / "model.safetensors.index.json").write_text("[]")
    assert "is no index" in refusal()
