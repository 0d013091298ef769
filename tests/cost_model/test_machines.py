"""From a specification, a file or nothing to a machine."""

from __future__ import annotations

import pytest

from hetpart.cost_model import machines, processors
from hetpart.cost_model.detect import DriverGpu, Processor, parse_driver_answer
from hetpart.cost_model.machines import free_memory_bytes, load_machine
from hetpart.cost_model.profiles import load_profile
from hetpart.devices import Provider
from hetpart.errors import InvalidOptionError


@pytest.fixture(autouse=True)
def _a_known_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processors, "this_processor", lambda: Processor("Some CPU", 4, 32 * 10**9))
    monkeypatch.setattr(machines, "driver_gpus", tuple)


def _with_gpu(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(machines, "driver_gpus", lambda: (DriverGpu(name, 24 * 2**30, 20 * 2**30),))


def test_without_a_gpu_it_is_an_l4_with_this_cpu():
    machine = load_machine()
    assert [device.model for device in machine.devices] == ["generic-2core", "l4"]
    assert [device.name for device in machine.devices] == ["cpu", "cuda:0"]
    assert machine.host.memory_bytes == 32 * 10**9
    assert "no NVIDIA GPU" in machine.origin
    assert "Some CPU" in machine.origin
    assert free_memory_bytes(machine) is None


def test_with_a_gpu_it_is_what_the_driver_names(monkeypatch):
    _with_gpu(monkeypatch, "NVIDIA GeForce RTX 4090")
    machine = load_machine()
    assert machine.accelerators[0].model == "rtx-4090"
    assert machine.accelerators[0].memory_bytes == 24 * 2**30
    assert "RTX 4090" in machine.origin
    assert free_memory_bytes(machine) == 20 * 2**30


def test_an_unknown_gpu_keeps_its_memory_and_says_whose_rates_it_has(monkeypatch):
    _with_gpu(monkeypatch, "NVIDIA Imaginary 9000")
    machine = load_machine()
    assert machine.accelerators[0].memory_bytes == 24 * 2**30
    assert machine.accelerators[0].bandwidth == load_machine("l4").accelerators[0].bandwidth
    assert "Imaginary 9000, which no profile knows" in machine.origin
    assert "l4" in machine.origin


def test_this_cpu_is_scaled_to_its_cores():
    whole, here = load_machine("l4+generic-2core").host, load_machine("l4").host
    assert here.peak_flops["float32"] == 2 * whole.peak_flops["float32"]
    assert here.bandwidth == whole.bandwidth
    assert "scaled to 4 cores" in here.sources["bandwidth"]


@pytest.mark.parametrize(
    ("spec", "models", "link"),
    [
        ("h100+epyc", ["epyc-genoa", "h100-sxm"], 50e9),
        ("rtx-4090+ryzen+pcie3", ["ryzen-desktop", "rtx-4090"], 12e9),
        ("rtx-4060+ryzen", ["ryzen-desktop", "rtx-4060"], 12e9),
        ("t4+host+pcie4", ["generic-2core", "t4"], 24e9),
    ],
)
def test_a_specification_names_profiles_by_name_or_alias(spec, models, link):
    machine = load_machine(spec)
    assert [device.model for device in machine.devices] == models
    assert machine.link("cpu", "cuda:0").bandwidth == link
    assert machine.link("cuda:0", "cpu").bandwidth == link
    assert spec in machine.origin


def test_the_emulated_accelerator_is_the_host_four_times_over():
    machine = load_machine("emulated+epyc")
    host, accelerator = machine.devices
    assert accelerator.provider is Provider.CPU
    assert accelerator.peak_flops == {dtype: 4 * rate for dtype, rate in host.peak_flops.items()}
    assert accelerator.bandwidth == 4 * host.bandwidth
    assert accelerator.efficiency == host.efficiency
    assert accelerator.session_seconds == accelerator.session_bytes == 0
    assert free_memory_bytes(machine) == accelerator.memory_bytes


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("h10", "'h10' is not the name of an accelerator", "h100"),
        ("epyc", "'epyc' is a CPU, not an accelerator", "ACCELERATOR"),
        ("h100+pcie4", "'pcie4' is a link, not a CPU", "xeon"),
        ("h100++pcie4", "3 parts", "h100+epyc+pcie5"),
        ("l4+epyc+pcie4+x", "4 parts", "ACCELERATOR"),
        ("", "1 parts", "ACCELERATOR"),
    ],
)
def test_a_bad_specification_says_what_is_known(spec, message, hint):
    with pytest.raises(InvalidOptionError) as caught:
        load_machine(spec)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_threads_take_their_share_of_the_processor():
    full, few = load_machine("l4+epyc").host, load_machine("l4+epyc", threads=4).host
    assert few.threads == 4
    assert few.peak_flops["float32"] == pytest.approx(full.peak_flops["float32"] * 4 / 96)
    assert few.bandwidth == 4 * load_profile("epyc-genoa").figures["core_bandwidth"]
    assert full.threads == 0


def test_the_emulated_accelerator_has_the_threads_of_the_host():
    """Its sessions run on as many."""
    host, emulated = load_machine("emulated+epyc", threads=4).devices
    assert emulated.peak_flops["float32"] == pytest.approx(4 * host.peak_flops["float32"])
    assert emulated.bandwidth == pytest.approx(4 * host.bandwidth)
    assert emulated.cores == host.cores == 4


FILE = """
name = "bench"

[host]
profile = "epyc"
memory_bytes = 64_000_000_000

[[accelerator]]
profile = "l4"
bandwidth = { value = 240e9, source = "measured with a copy kernel" }
peak_flops.float32 = 25e12
link = { profile = "pcie4", bandwidth = 20e9 }

[[accelerator]]
profile = "t4"
link = "pcie3"
"""


def test_a_file_starts_from_profiles_and_changes_figures(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(FILE)
    machine = load_machine(path)
    assert machine.name == "bench"
    assert [device.name for device in machine.devices] == ["cpu", "cuda:0", "cuda:1"]
    first = machine.accelerators[0]
    assert (first.bandwidth, first.peak_flops["float32"]) == (240e9, 25e12)
    assert first.sources["bandwidth"] == "measured with a copy kernel"
    assert first.memory_bytes == load_machine("l4").accelerators[0].memory_bytes
    assert machine.host.memory_bytes == 64 * 10**9
    assert machine.link("cuda:0", "cpu").bandwidth == 20e9
    assert machine.link("cpu", "cuda:1").bandwidth == 12e9
    assert str(path) in machine.origin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[accelerator]]\nprofile = 'l4'\nbandwith = 3e9", "no figure bandwith"),
        ("[[accelerator]]\nprofile = 'l4'\nbandwidth = 'fast'", "'fast', not a number"),
        ("[[accelerator]]\nprofile = 'l4'\nmemory_bytes = nan", "'memory_bytes' is nan, which is no number"),
        ("[[accelerator]]\nprofile = 'l4'\nbandwidth = { value = inf }", "'bandwidth' is inf, which is no number"),
        ("[[accelerator]]\nprofile = 'l4'\nefficiency = 3", "'efficiency' is 3, and a share is above 0 and at most 1"),
        ("[[accelerator]]\nprofile = 'l4'\npeak_flops.float99 = 1e12", "there is no type 'float99'"),
        ("[host]\ncores = 0\n[[accelerator]]\nprofile = 'l4'", "'cores' is 0, and cores are counted from 1"),
        ("[host]\ncores = 2.5\n[[accelerator]]\nprofile = 'l4'", "'cores' is 2.5, and cores are counted"),
        ("[[accelerator]]\nprofile = 'nothing'", "'nothing' is not the name of an accelerator"),
        ("[host]\nprofile = 'epyc'", "describes no accelerator"),
        ("[gpu]\nprofile = 'l4'", "unknown key gpu"),
        ("accelerator = 3", "describes no accelerator"),
        ("accelerator = [3]", "not a table"),
        ("this is not toml", "is not TOML"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "machine.toml"
    path.write_text(text)
    with pytest.raises(InvalidOptionError, match=message):
        load_machine(path)


def test_a_missing_file_is_an_error():
    with pytest.raises(InvalidOptionError, match="cannot read"):
        load_machine("nowhere/machine.toml")


def test_the_drivers_answer_is_read_line_by_line():
    answer = "NVIDIA H200, 143771, 143156\nTesla T4, 15360, 12\n\n[Not Supported]\n"
    assert parse_driver_answer(answer) == (
        DriverGpu("NVIDIA H200", 143771 * 2**20, 143156 * 2**20),
        DriverGpu("Tesla T4", 15360 * 2**20, 12 * 2**20),
    )
    assert parse_driver_answer("NVIDIA-SMI has failed because it couldn't communicate") == ()


def test_the_machine_these_tests_run_on_can_be_described(monkeypatch):
    monkeypatch.undo()
    machine = load_machine()
    assert machine.host.memory_bytes > 10**8
    assert machine.origin
