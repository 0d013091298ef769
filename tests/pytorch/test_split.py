"""Plans that go back to PyTorch: as a GraphModule in pieces, and as a map from modules to devices."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_model
from torch import nn

import hetpart
from hetpart.errors import InvalidFeedError, InvalidOptionError
from hetpart.pytorch.split import CopyTo
from tests.pytorch.conftest import Models
from tests.pytorch.models import CASES, mlp
from tests.pytorch.test_partition import assert_equal

EMULATED = "emulated"
ON_HOST = {"cuda:0": "cpu"}


@pytest.mark.parametrize("placement", ["optimal", "random:1"])
@pytest.mark.parametrize("name", CASES)
def test_the_pieces_compute_what_the_module_does(known: Models, name: str, placement: str) -> None:
    case, planned = known.case(name), known.planned(name, placement)
    with torch.no_grad():
        assert_equal(planned.to_fx(ON_HOST)(*case.args, **case.kwargs), case.result())


def test_a_device_that_the_plan_has_not_is_refused() -> None:
    case = mlp()
    planned = hetpart.partition(case.module, args=case.args, hardware=EMULATED)
    with pytest.raises(InvalidOptionError, match=r"'cuda:7', which the plan has not\n.*cpu, cuda:0"):
        planned.to_fx({"cuda:7": "cpu"})


def test_a_call_of_another_structure_is_refused_on_one_line() -> None:
    case = mlp()
    run = hetpart.partition(case.module, args=case.args, hardware=EMULATED).to_module(emulate=True)
    wanted = (
        r"^the call has 2 values \(arguments by position: 2, by name: none\), and .* position: 1, by name: none\): "
        r"a tuple of 2 in the place of a tuple of 1\n"
    )
    with pytest.raises(InvalidFeedError, match=wanted):
        run(*case.args, *case.args)


def test_every_piece_has_a_device_and_only_copies_lie_between_two(known: Models) -> None:
    case, exported = known("bert")
    pin = {"encoder.layer.0.*": "cpu", "encoder.layer.1.*": "cuda", "embeddings.*": "cuda", "pooler.*": "cuda"}
    module = hetpart.partition(exported, hardware=EMULATED, pin=pin).to_fx()
    children = dict(module.named_children())
    for node in module.graph.nodes:
        if node.op != "call_module" or isinstance(children[node.target], CopyTo):
            continue
        for source in node.all_input_nodes:
            if source.op == "call_function":  # an entry of what a piece returns
                assert children[source.args[0].target].device == children[node.target].device
            elif source.op == "call_module":
                assert children[source.target].device == children[node.target].device
    pieces = [child for child in children.values() if not isinstance(child, CopyTo)]
    assert {piece.device for piece in pieces} == {"cpu", "cuda:0"}
    assert any(isinstance(child, CopyTo) for child in children.values())
    layer = [
        {
            dict(piece.named_parameters()).get(f"encoder.layer.{number}.output.dense.weight") is not None
            for piece in pieces
            if piece.device == device
        }
        for number, device in ((0, "cpu"), (1, "cuda:0"))
    ]
    assert all(True in held for held in layer)
    own = dict(case.module.named_parameters())["encoder.layer.0.output.dense.weight"]
    shared = [
        p for piece in pieces for name, p in piece.named_parameters() if name == "encoder.layer.0.output.dense.weight"
    ]
    assert shared[0].data_ptr() == own.data_ptr()


def test_a_device_map_names_the_fewest_modules(known: Models) -> None:
    _, exported = known("bert")
    pin = {"encoder.layer.0.*": "cpu", "encoder.layer.1.*": "cuda", "embeddings.*": "cuda", "pooler.*": "cuda"}
    found = hetpart.partition(exported, hardware=EMULATED, pin=pin).device_map()
    assert found == {"embeddings": 0, "encoder.layer.0": "cpu", "encoder.layer.1": 0, "pooler": 0}
    assert any("copies weights" in loss for loss in found.losses)
    whole = hetpart.partition(exported, hardware=EMULATED, placement="all-cpu").device_map()
    assert whole == {"": "cpu"}
    assert whole.losses == ()


class Rooted(nn.Module):
    """Weights of its own beside children."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x) * self.scale)


def test_every_entry_of_a_device_map_is_of_all_that_is_inside_it() -> None:
    """As Accelerate places what an entry names, whatever others say of its children."""
    pin = {"first.*": "cuda", "second.*": "cpu"}
    module = Rooted()
    found = hetpart.partition(module, args=(torch.ones(2, 4),), hardware=EMULATED, pin=pin).device_map()
    assert found["first"] == 0
    assert found["second"] == "cpu"
    placed = [
        [path for path in found if not path or f"{name}.".startswith(f"{path}.")]
        for name, _ in module.named_parameters()
    ]
    assert all(len(paths) == 1 for paths in placed)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 50, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.table(ids)))


@pytest.mark.parametrize("given", ["module", "program", "meta"])
@pytest.mark.parametrize("there", [("cpu", "cuda"), ("cuda", "cpu")])
def test_owners_of_one_weight_are_each_where_their_own_ops_are(given: str, there: tuple[str, str]) -> None:
    """As those of two weights are."""
    table, head = there
    with torch.device("meta" if given == "meta" else "cpu"):
        module = Tied().eval()
    args = (torch.arange(3),)
    source: dict[str, Any] = {"args": args}
    if given == "program":
        module, source = torch.export.export(module, args), {}
    pin = {"table.*": table, "inner.*": "cuda", "head.*": head}
    planned = hetpart.partition(module, **source, hardware=EMULATED, pin=pin)
    accelerate: dict[str, int | str] = {"cpu": "cpu", "cuda": 0}
    found = {"table": accelerate[table], "inner": 0, "head": accelerate[head]}
    assert planned.device_map() == found
    assert not any("elsewhere" in loss for loss in planned.device_map().losses)


def test_a_device_map_says_what_it_cannot(known: Models) -> None:
    _, exported = known("mlp")
    graph = hetpart.load(exported)
    gelu = next(op for op in graph.ops if op.scope == "act")
    pins = {f"node:{op.name}": "cuda" if op.scope == "act" else "cpu" for op in graph.ops}
    found = hetpart.partition(exported, hardware=EMULATED, pin=pins).device_map()
    assert found == {"": "cpu"}
    assert any(gelu.name in loss for loss in found.losses)


class Made(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(4, device=x.device)


def test_constants_are_made_where_they_are_used() -> None:
    planned = hetpart.partition(Made(), args=(torch.ones(4),), hardware=EMULATED, placement="all-accelerator")
    module = planned.to_fx({"cuda:0": "meta", "cpu": "meta"})
    assert module(torch.ones(4, device="meta")).device.type == "meta"


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # PyTorch's own
@pytest.mark.parametrize("shapes", [None, {"ids": {0: "rows"}}])
def test_what_it_is_split_into_can_be_pickled(shapes: Any) -> None:
    """Also where calls of one size alone are let in."""
    module, args = Tied().eval(), (torch.arange(3),)
    planned = hetpart.partition(module, args=args, dynamic_shapes=shapes, hardware=EMULATED, placement="random:1")
    again = pickle.loads(pickle.dumps(planned.to_fx(ON_HOST)))
    torch.testing.assert_close(again(*args), module(*args))
    if shapes is None:
        with pytest.raises(InvalidFeedError):
            again(torch.arange(4))


@pytest.mark.parametrize("content", ["meta", "other"])
def test_weights_are_those_of_the_files(content: str, tmp_path: Path) -> None:
    """One name of two is in them."""
    whole, args = Tied().eval(), (torch.arange(3),)
    save_model(whole, str(tmp_path / "model.safetensors"))
    with torch.device("meta" if content == "meta" else "cpu"):
        module = Tied().eval()
    options: dict[str, Any] = {"weights": tmp_path, "hardware": EMULATED, "placement": "random:1"}
    made = hetpart.partition(module, args=args, **options).to_fx(ON_HOST)
    torch.testing.assert_close(made(*args), whole(*args))


@pytest.mark.parametrize("device", ["nodev", "cuda:x", None])
def test_a_device_that_pytorch_has_not_is_refused(device: Any) -> None:
    case = mlp()
    planned = hetpart.partition(case.module, args=case.args, hardware=EMULATED)
    unmapped: Any = "cpu"
    with pytest.raises(InvalidOptionError, match=rf"to call 'cuda:0' {device!r}, which is no device of PyTorch's"):
        planned.to_fx({"cuda:0": device})
    with pytest.raises(InvalidOptionError, match="cannot be given 'cpu'"):
        planned.to_fx(unmapped)
    assert planned.to_fx({"cuda:0": torch.device("meta")})
