"""Profiles are complete, sourced, and agree with what is known of the hardware."""

from __future__ import annotations

import re

import pytest

from hetpart.cost_model.machines import load_machine
from hetpart.cost_model.profiles import REQUIRED, Kind, links_of, load_profile, profile_names
from hetpart.cost_model.transfer import transfer_seconds
from hetpart.errors import InvalidOptionError
from hetpart.report.hardware_text import describe_hardware
from hetpart.report.layout import plain
from hetpart.units import format_bytes

EXPECTED = {
    "h200", "h100-sxm", "h100-pcie", "a100-80", "a100-40", "l40s", "l4", "a10", "t4", "v100", "rtx-5090",
    "rtx-4090", "rtx-4060", "rtx-3090", "rtx-3060", "gh200", "epyc-genoa", "epyc-milan", "epyc-turin", "xeon-emr",
    "xeon-spr", "ryzen-desktop", "generic-2core", "pcie3", "pcie4", "pcie4-x8", "pcie5", "nvlink-c2c", "emulated",
}  # fmt: skip
DRIVER_NAMES = {
    "NVIDIA H200": "h200",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA A100-SXM4-80GB": "a100-80",
    "NVIDIA A100 80GB PCIe": "a100-80",
    "NVIDIA A100-SXM4-40GB": "a100-40",
    "NVIDIA A100-PCIE-40GB": "a100-40",
    "NVIDIA L40S": "l40s",
    "NVIDIA L4": "l4",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-32GB": "v100",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 4060": "rtx-4060",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 3060": "rtx-3060",
    "NVIDIA GeForce RTX 5090 D": None,
    "NVIDIA GeForce RTX 5090 Laptop GPU": None,
    "NVIDIA GeForce RTX 4090 D": None,
    "NVIDIA GeForce RTX 4090 Laptop GPU": None,
    "NVIDIA GeForce RTX 4060 Ti": None,
    "NVIDIA GeForce RTX 4060 Laptop GPU": None,
    "NVIDIA GeForce RTX 3090 Ti": None,
    "NVIDIA GeForce RTX 3060 Ti": None,
    "NVIDIA GeForce RTX 3060 Laptop GPU": None,
    "NVIDIA L40": None,
    "NVIDIA A100X-Something": None,
    "NVIDIA A1000 Laptop GPU": None,
}
PROCESSOR_NAMES = {
    "AMD EPYC 9654 96-Core Processor": "epyc-genoa",
    "AMD EPYC 9655 96-Core Processor": "epyc-turin",
    "AMD EPYC, AuthenticAMD family 26 model 2": "epyc-turin",
    "AMD EPYC, AuthenticAMD family 25 model 17": "epyc-genoa",
    "AMD EPYC-Genoa Processor, AuthenticAMD family 25 model 17": "epyc-genoa",
    "AMD EPYC, AuthenticAMD family 25 model 1": "epyc-milan",
    "AMD EPYC 7763 64-Core Processor, AuthenticAMD family 25 model 1": "epyc-milan",
    "AMD EPYC 7B13": "epyc-milan",
    "AMD EPYC 7742 64-Core Processor, AuthenticAMD family 23 model 49": None,
    "AMD EPYC, AuthenticAMD family 25 model 160": None,
    "AMD Ryzen AI 9 HX 370 w/ Radeon 890M, AuthenticAMD family 26 model 36": None,
    "AMD EPYC 9B14": None,
    "Intel(R) Xeon(R) Platinum 8480+": "xeon-spr",
    "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz": "xeon-spr",
    "Intel(R) Xeon(R) Gold 6430": "xeon-spr",
    "Intel(R) Xeon(R) Platinum 8592+": "xeon-emr",
    "Intel(R) Xeon(R) Processor, GenuineIntel family 6 model 207": "xeon-emr",
    "Intel(R) Xeon(R) Processor, GenuineIntel family 6 model 143": "xeon-spr",
    "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz, GenuineIntel family 6 model 106": None,
    "Intel(R) Xeon(R) CPU @ 2.20GHz": None,
    "AMD Ryzen 9 7950X 16-Core Processor": "ryzen-desktop",
}


def test_the_profiles_that_are_promised_are_there():
    assert set(profile_names()) >= EXPECTED


@pytest.mark.parametrize("name", profile_names())
def test_every_figure_has_a_source(name):
    profile = load_profile(name)
    assert set(profile.sources) == set(profile.figures)
    assert all(len(source) > 10 for source in profile.sources.values())


@pytest.mark.parametrize("name", [n for n in profile_names() if n != "emulated"])
def test_every_profile_is_complete(name):
    profile = load_profile(name)
    profile.require()
    assert set(profile.figures) >= set(REQUIRED[profile.kind])


@pytest.mark.parametrize("name", profile_names(Kind.ACCELERATOR))
def test_an_accelerators_link_is_a_link(name):
    assert load_profile(load_profile(name).link).kind is Kind.LINK


def test_names_and_aliases_are_unique():
    names = [n for name in profile_names() for n in (name, *load_profile(name).aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", [n for n in profile_names(Kind.ACCELERATOR) if n != "emulated"])
def test_figures_are_in_the_range_of_real_hardware(name):
    figures = load_profile(name).figures
    assert 1e9 < figures["memory_bytes"] < 1e12
    assert 1e11 < figures["bandwidth"] < 1e13
    assert 1e12 < figures["peak_flops.float32"] < 1e15
    assert figures["peak_flops.float16"] >= figures["peak_flops.float32"] >= figures["peak_flops.float64"]
    assert figures["random_bandwidth"] < figures["bandwidth"]
    assert 0 < figures["efficiency"] <= 1
    assert 0 < figures["bandwidth_efficiency"] <= 1


CORES_AND_CLOCKS = {"rtx-5090": (21_760, 2.407e9), "rtx-4060": (3072, 2.46e9), "rtx-3060": (3584, 1.777e9)}
"""CUDA cores and boost clocks, from which the whitepapers compute all their rates."""


@pytest.mark.parametrize(("name", "cores", "clock"), [(name, *pair) for name, pair in CORES_AND_CLOCKS.items()])
def test_peaks_of_geforce_cards_follow_from_cores_and_clocks(name, cores, clock):
    figures = load_profile(name).figures
    plain = 2 * cores * clock
    shares = {"float32": 1, "float16": 2, "bfloat16": 2, "int8": 8, "uint8": 8, "float64": 1 / 64}
    for dtype, share in shares.items():
        assert figures[f"peak_flops.{dtype}"] == pytest.approx(share * plain, rel=0.01), dtype


@pytest.mark.parametrize("name", profile_names(Kind.LINK))
def test_staging_slows_copies_and_never_speeds_them_up(name):
    there, back = links_of(load_profile(name), "cpu", "cuda:0")
    for link in (there, back):
        assert 1e9 < link.copy_bandwidth <= link.bandwidth
    assert (there.source, there.target) == (back.target, back.source) == ("cpu", "cuda:0")


def test_figures_of_the_way_back_are_those_of_the_link_to_the_host():
    there, back = links_of(load_profile("nvlink-c2c"), "cpu", "cuda:0")
    assert (there.bandwidth, back.bandwidth) == (375e9, 297e9)
    assert there.copy_bandwidth > back.copy_bandwidth
    assert transfer_seconds(10**9, there) < transfer_seconds(10**9, back)


def test_copies_are_priced_as_the_runtime_makes_them():
    there, _ = links_of(load_profile("pcie4"), "cpu", "cuda:0")
    assert transfer_seconds(10**9, there) == pytest.approx(0.1 + there.latency)


@pytest.mark.parametrize(
    ("stated", "there", "back"),
    [
        ("pageable_bandwidth = 6e9", 6e9, 6e9),
        ("pageable_bandwidth = 6e9, pageable_bandwidth_back = 5e9", 6e9, 5e9),
        ("pageable_bandwidth_back = 5e9", 10e9, 5e9),
        ("bandwidth = 3e9", 3e9, 3e9),
        ("bandwidth = 20e9", 10e9, 10.8e9),
    ],
)
def test_what_a_file_states_of_a_link_holds_both_ways(tmp_path, stated, there, back):
    path = tmp_path / "box.toml"
    path.write_text(f'[[accelerator]]\nprofile = "l4"\nlink = {{ profile = "pcie4", {stated} }}\n')
    machine = load_machine(path)
    assert machine.link("cpu", "cuda:0").copy_bandwidth == there
    assert machine.link("cuda:0", "cpu").copy_bandwidth == back


@pytest.mark.parametrize("spec", ["gh200+grace", "h100+epyc-genoa", "rtx-4060+ryzen-desktop", "l4+generic-2core"])
def test_a_terminal_of_80_columns_breaks_no_name_or_number_of_a_machine(spec):
    shown = plain(describe_hardware(spec).parts, 80)
    machine = load_machine(spec)
    for device in machine.devices:
        (row,) = (line for line in shown.splitlines() if re.match(rf"\s+{device.name}\s+{device.model}\s", line))
        assert row.rstrip().endswith("µs")
        assert format_bytes(device.memory_bytes) in row
    for link in machine.links:
        assert f"{format_bytes(link.copy_bandwidth)}/s" in shown


def test_a_terminal_of_80_columns_breaks_no_name_of_the_list():
    shown = plain(describe_hardware().parts, 80)
    assert [name for name in profile_names() if not re.search(rf"^  {name}\s", shown, re.MULTILINE)] == []


def test_a_terminal_of_80_columns_shows_every_figure_of_a_profile():
    shown = plain(describe_hardware("rtx-5090").parts, 80)
    assert [key for key in load_profile("rtx-5090").figures if not re.search(rf"^  {key}\s", shown, re.MULTILINE)] == []


def test_an_accelerators_profile_is_shown_with_what_is_planned_for_here():
    described, machine = describe_hardware("emulated"), load_machine("emulated")
    shown = plain(described.parts, 120)
    assert machine.name in shown
    assert f"{format_bytes(machine.link('cpu', 'cuda:0').copy_bandwidth)}/s" in shown
    assert described.content["machine"]["name"] == machine.name


def _matches(name: str, kind: Kind) -> list[str]:
    profiles = map(load_profile, profile_names(kind))
    return [p.name for p in profiles if any(re.search(pattern, name) for pattern in p.patterns)]


@pytest.mark.parametrize(("driver", "profile"), DRIVER_NAMES.items())
def test_a_drivers_name_matches_one_profile_at_most(driver, profile):
    assert _matches(driver, Kind.ACCELERATOR) == ([profile] if profile else [])


@pytest.mark.parametrize(("processor", "profile"), PROCESSOR_NAMES.items())
def test_a_processors_name_matches_one_profile_at_most(processor, profile):
    assert _matches(processor, Kind.CPU) == ([profile] if profile else [])


def test_an_incomplete_profile_is_refused():
    profile = load_profile("l4")
    with pytest.raises(InvalidOptionError, match="bandwidth = 0"):
        profile.with_figures({"bandwidth": 0.0}, "a test").require()
    with pytest.raises(InvalidOptionError, match="lacks bandwidth"):
        load_profile("emulated").require()
