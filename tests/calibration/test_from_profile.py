"""Refitting to profiles that ONNX Runtime really wrote, and to files that are none."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import helper

from hetpart.calibration import from_profile
from hetpart.calibration.families import CONVOLUTIONS, FAMILIES
from hetpart.calibration.from_profile import refit, refit_from
from hetpart.calibration.models import CONTRIB, chain, model, numbers
from hetpart.calibration.profiled_calls import ProfiledKernel, Tensor, kernel_calls
from hetpart.calibration.run_profile import read_profile
from hetpart.cli import main
from hetpart.cost_model import calibrated
from hetpart.cost_model.calibrated import SCHEMA, VERSION, Calibration, runtime_version
from hetpart.cost_model.call_seconds import call_seconds
from hetpart.cost_model.detect import this_processor
from hetpart.cost_model.kernel_calls import LONE
from hetpart.errors import HetpartError, InvalidOptionError
from hetpart.rates import KernelRates, RateTable, Starts

WARM_SHARE = 0.5


def made_up_rates() -> KernelRates:
    """Every family takes a microsecond at its smallest and more, without bound, at larger sizes."""
    families = {**FAMILIES, **CONVOLUTIONS}
    tables = {name: RateTable(tuple((1.0,) for _ in family.axes), (1e-9,)) for name, family in families.items()}
    tables["reorder"] = RateTable(((1.0,),), (1e-9,))
    tables["relu_overwriting"] = tables["relu"]
    tables |= {name: tables[whole] for name, whole in LONE.items()}
    tables["gemm_streamed"] = tables["gemm"].times(2.0)
    return KernelRates(
        tables=tables,
        warm_tables={name: table.times(WARM_SHARE) for name, table in tables.items()},
        weights_table=RateTable(((1e6, 32e6, 64e6),), (1e-5, 32e-5, 192e-5)),
        session_seconds=5e-6,
        launch_seconds=1e-6,
        visit_seconds=1e-7,
        cool=Starts(),
        cold=Starts(),
        filled_seconds=0.0,
        constant_seconds=0.0,
        hop_seconds=0.0,
        operand_seconds=1e-7,
        bandwidth=1e10,
        lone_bandwidth=1e10,
        random_bandwidth=1e9,
        cold_bandwidth=1e12,
        peak_flops={"float32": 1e11},
        core_cache_bytes=2.0**22,
        cache_bytes=2.0**24,
        quiet_share=1.0,
        error=0.1,
    )


def made_up_calibration() -> Calibration:
    processor = this_processor()
    rates = {"1": made_up_rates(), "2": made_up_rates()}
    return Calibration(SCHEMA, VERSION, processor.kind, processor.cores, runtime_version(), rates, 1e10, 1e-6)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path / "config"))
    return tmp_path


def profiled(folder, content, *, threads=1, runs=4, **asked):
    """The profile of a real session."""
    options = onnxruntime.SessionOptions()
    for name, setting in asked.items():
        setattr(options, name, setting)
    options.intra_op_num_threads = threads
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    feeds = {
        arg.name: numbers(*arg.shape) if "float" in arg.type else np.zeros(arg.shape, np.int64)
        for arg in session.get_inputs()
    }
    for _ in range(runs):
        session.run(None, feeds)
    return folder / session.end_profiling()


def products(rows=64, width=512):
    """Products with a bias and an activation, which ONNX Runtime fuses, and whose weights it packs."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w1"], ["y"]),
    ]
    weights = {"w0": numbers(width, width), "w1": numbers(width, width), "b": numbers(width)}
    return model(nodes, {"x": (rows, width)}, {"y": (rows, width)}, weights)


def told(path):
    """What is read from a profile: (family, sizes) of every kernel."""
    return [(c.call.family, c.call.sizes) for c in kernel_calls(read_profile(path).kernels)]


UNTOLD = {"pool": (8192, 9), "transpose": (65_536, 16)}
"""The window is an attribute; axes of one size, of which the probe of this one has two, cannot be told apart."""
SECOND = {
    name: [axis[min(1, len(axis) - 1)] for axis in family.axes]
    for name, family in {**FAMILIES, **CONVOLUTIONS}.items()
    if name not in UNTOLD
}


@pytest.mark.parametrize("name", SECOND)
def test_a_profile_of_a_familys_probe_tells_that_family_and_size(tmp_path, name):
    family = {**FAMILIES, **CONVOLUTIONS}[name]
    sizes = SECOND[name]
    if name.startswith("gather"):
        sizes[2] = 2**20
    found = told(profiled(tmp_path, family.build(*sizes), runs=1))
    expected = [size for told_family, size in found if told_family == name]
    assert expected, found
    assert np.allclose(np.asarray(expected[0], float), sizes, rtol=0.05), found


def test_what_the_optimiser_fused_is_of_the_same_family(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, group=32),
    ]
    weights = {"w": numbers(32, 16, 3, 3), "v": numbers(32, 1, 3, 3)}
    images = model(nodes, {"x": (2, 16, 28, 28)}, {"y": (2, 32, 28, 28)}, weights)
    assert dict(told(profiled(tmp_path, images)))["convolution"] == (16, 32, 2 * 28 * 28)
    assert dict(told(profiled(tmp_path, images)))["depthwise"] == (32, 2 * 28 * 28)
    assert told(profiled(tmp_path, products())) == [("gemm", (64, 512, 512))] * 2


def test_a_product_of_what_is_no_weight_counts_each_matrix(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"])]
    batched = model(nodes, {"x": (2, 3, 40, 16), "z": (2, 3, 16, 24)}, {"y": (2, 3, 40, 24)})
    (call,) = kernel_calls(read_profile(profiled(tmp_path, batched)).kernels)
    assert (call.call.family, call.call.sizes, call.call.calls) == ("batched_gemm", (40, 16, 24), 6)


def test_heads_that_change_places_keep_their_runs(tmp_path):
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])]
    heads = model(nodes, {"x": (1, 128, 12, 64)}, {"y": (1, 12, 128, 64)})
    assert told(profiled(tmp_path, heads)) == [("transpose", (128 * 12 * 64, 64))]


@pytest.mark.parametrize("name", UNTOLD)
def test_what_shapes_leave_open_is_not_guessed(tmp_path, name):
    family = FAMILIES[name]
    found = told(profiled(tmp_path, family.build(*UNTOLD[name]), runs=1))
    assert {told_family for told_family, _ in found} <= {"reorder"}


@pytest.mark.parametrize(
    ("shape", "made", "sizes"),
    [
        ((1, 128, 12, 64), (1, 12, 128, 64), [(128 * 12 * 64, 64)]),
        ((8, 6, 4), (6, 4, 8), [(8 * 6 * 4, 1)]),
        ((4, 4, 3), (4, 4, 3), []),
        ((7, 5, 5), (5, 7, 5), []),
    ],
)
def test_axes_are_told_by_their_sizes_or_not_at_all(shape, made, sizes):
    kernel = ProfiledKernel("Transpose", (Tensor("float32", shape),), (Tensor("float32", made),), 0, 1e-3)
    assert [call.call.sizes for call in kernel_calls([kernel])] == sizes


@pytest.mark.usefixtures("own_folder")
def test_predictions_become_what_the_run_took(own_folder):
    calibrated.save(made_up_calibration())
    path = profiled(own_folder, products(), runs=9)
    events = [e for e in json.loads(path.read_text()) if e["cat"] == "Node"]
    took = {name: [e["dur"] * 1e-6 for e in events if e["name"] == name][1:] for name in {e["name"] for e in events}}
    seconds = [median(those) for those in took.values()]
    found = refit_from(path)
    assert [(fit.family, fit.kernels) for fit in found.families] == [("gemm", 2)]
    refitted = found.calibration.threads["1"].warm_tables["gemm"].at((64, 512, 512))
    assert 0.8 * min(seconds) < refitted < 1.2 * max(seconds)
    assert found.calibration.threads["2"] == made_up_rates()


def test_a_second_refit_changes_nothing(tmp_path):
    kernels = read_profile(profiled(tmp_path, products())).kernels
    first = refit(made_up_calibration(), kernels, 1, 0.0)
    second = refit(first.calibration, kernels, 1, 0.0)
    assert first.families[0].factor != pytest.approx(1.0)
    assert [fit.factor for fit in second.families] == [pytest.approx(1.0)]


def kernel(seconds, width=512, parameters=0):
    """A product of 64 rows whose weight was packed."""
    left, made = Tensor("float32", (64, width)), Tensor("float32", (64, width))
    return ProfiledKernel("MatMul", (left,), (made,), parameters, seconds)


def test_the_factor_is_the_median_and_of_one_family_alone():
    rates = made_up_rates()
    predicted = rates.warm_tables["gemm"].at((64, 512, 512))
    kernels = [kernel(share * predicted - rates.launch_seconds) for share in (1.5, 2.0, 9.0)]
    found = refit(made_up_calibration(), kernels, 1, 0.0)
    assert [(fit.family, fit.kernels) for fit in found.families] == [("gemm", 3)]
    assert found.families[0].factor == pytest.approx(2.0)
    scaled = found.calibration.threads["1"]
    assert scaled.tables["gemm"].seconds == pytest.approx(rates.tables["gemm"].times(2.0).seconds)
    assert scaled.warm_tables["gemm"].seconds == pytest.approx(rates.warm_tables["gemm"].times(2.0).seconds)
    streamed = rates.tables["gemm_streamed"].times(2.0)
    assert scaled.tables["gemm_streamed"].seconds == pytest.approx(streamed.seconds)
    others = set(rates.tables) - {"gemm", "gemm_streamed"}
    assert {name: scaled.tables[name] for name in others} == {name: rates.tables[name] for name in others}


def test_a_size_says_nothing_of_others_far_from_it():
    """A product of one row took five times what was measured: one of many rows takes what it did."""
    rates = made_up_rates()
    table = RateTable(((1.0, 16.0, 256.0), (512.0,), (512.0,)), (1e-4, 2e-4, 4e-4))
    tables = {**rates.tables, "gemm": table, "gemm_streamed": table.times(2.0)}
    found = replace(made_up_calibration(), threads={"1": replace(rates, tables=tables, warm_tables=tables)})
    one_row = ProfiledKernel(
        "MatMul", (Tensor("float32", (1, 512)),), (Tensor("float32", (1, 512)),), 0, 5e-4 - rates.launch_seconds
    )
    refitted = refit(found, [one_row], 1, 0.0)
    assert refitted.calibration.threads["1"].warm_tables["gemm"].seconds == pytest.approx((5e-4, 2e-4, 4e-4))
    assert refitted.calibration.threads["1"].tables["gemm_streamed"].seconds == pytest.approx((1e-3, 4e-4, 8e-4))
    (fit,) = refitted.families
    assert (fit.points, fit.all_points, fit.seconds) == (1, 3, pytest.approx(1e-4))
    between = replace(one_row, inputs=(Tensor("float32", (64, 512)),), outputs=(Tensor("float32", (64, 512)),))
    moved = refit(found, [replace(between, seconds=1e-3)], 1, 0.0).calibration.threads["1"].warm_tables["gemm"]
    assert moved.at((64, 512, 512)) == pytest.approx(1e-3 + rates.launch_seconds)
    assert moved.seconds[0] == table.seconds[0]


def test_kernels_weigh_by_what_they_should_take():
    """Many short ones that took long beside one that computes the most, which took what was measured."""
    rates = made_up_rates()
    predicted = rates.warm_tables["gemm"].at((64, 512, 512))
    small = rates.warm_tables["gemm"].at((64, 128, 128))
    kernels = [kernel(predicted - rates.launch_seconds)] + [kernel(9 * small, width=128)] * 5
    (fit,) = refit(made_up_calibration(), kernels, 1, 0.0).families
    assert (fit.kernels, fit.factor) == (6, pytest.approx(1.0))


def test_what_should_be_short_tells_nothing_however_long_it_took():
    """A head of ten classes, whose code and weights lay in no cache when it began."""
    head = ProfiledKernel("Gemm", (Tensor("float32", (1, 8)),), (Tensor("float32", (1, 10)),), 0, 16e-6)
    assert refit(made_up_calibration(), [head], 1, 0.0).families == ()


def test_what_profiling_adds_is_taken_off():
    rates = made_up_rates()
    predicted = rates.warm_tables["gemm"].at((64, 512, 512))
    found = refit(made_up_calibration(), [kernel(predicted - rates.launch_seconds + 5e-6)], 1, 5e-6)
    assert found.families[0].factor == pytest.approx(1.0)


def test_kernels_shorter_than_the_clock_can_tell_are_left_out():
    short = ProfiledKernel("Relu", (Tensor("float32", (8,)),), (Tensor("float32", (8,)),), 0, 3e-6)
    found = refit(made_up_calibration(), [short], 1, 0.0)
    assert (found.families, found.left_out) == ((), 1)


def test_weights_that_no_cache_holds_are_of_the_table_that_streams_them():
    rates = made_up_rates()
    wide = [kernel(1.0, width=2048) for _ in range(20)]
    first = next(iter(kernel_calls(wide)))
    assert first.around.weights == 20 * 4 * 2048**2 > 9 * rates.cache_bytes
    streamed = rates.tables["gemm_streamed"].at(first.call.sizes)
    assert call_seconds(first.call, rates, first.around) == pytest.approx(streamed, rel=1e-3)


def test_kernels_that_wait_for_main_memory_say_nothing_of_the_table():
    large = Tensor("float32", (2**14, 2**10))
    far = [ProfiledKernel("Softmax", (large,), (large,), 0, 1.0)]
    waiting = replace(made_up_calibration(), threads={"1": replace(made_up_rates(), bandwidth=1e6)})
    assert refit(waiting, far, 1, 0.0).families == ()
    assert refit(made_up_calibration(), far, 1, 0.0).families[0].kernels == 1


def test_other_element_types_are_of_no_family():
    half = Tensor.of("float16", (1024, 1024))
    found = refit(made_up_calibration(), [ProfiledKernel("Relu", (half,), (half,), 0, 1e-3)], 1, 0.0)
    assert found.families == ()


def test_the_profile_tells_its_threads(own_folder):
    path = profiled(own_folder, products(), threads=2)
    assert read_profile(path).threads == 2
    calibrated.save(made_up_calibration())
    with pytest.raises(InvalidOptionError, match="with 2 threads, not 1"):
        refit_from(path, 1)


@pytest.mark.parametrize("rows", [1, 64])
def test_threads_that_had_nothing_to_do_count(own_folder, rows):
    """ONNX Runtime calls them all alike: a product of one row of eight wakes none of three."""
    path = profiled(own_folder, products(rows, 8), threads=4)
    assert read_profile(path).threads == 4


def test_timing_what_profiles_add_leaves_the_process_as_it_was(own_folder):
    """Sessions of a process that shares threads must share them: those of a user's own would fail from then on."""
    assert 0.0 <= from_profile._noting(2) < 1e-3
    profiled(own_folder, products(), threads=2)


def test_without_a_calibration_it_says_to_make_one(own_folder):
    with pytest.raises(HetpartError, match="no calibration") as caught:
        refit_from(profiled(own_folder, products()))
    assert "hetpart calibrate" in caught.value.hint


def blocks():
    """A convolution whose channels ONNX Runtime puts in blocks."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)
    return model([node], {"x": (1, 32, 28, 28)}, {"y": (1, 32, 28, 28)}, {"w": numbers(32, 32, 3, 3)})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"runs": 1}, "is of 1 run, and the first allocates"),
        ({"threads": 2, "execution_mode": onnxruntime.ExecutionMode.ORT_PARALLEL}, "runs kernels beside one another"),
        (
            {"graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL},
            "none of the 1 convolution of 16 channels and more",
        ),
    ],
)
def test_runs_of_other_kernels_than_were_measured_are_refused(own_folder, asked, message):
    calibrated.save(made_up_calibration())
    with pytest.raises(InvalidOptionError, match=message):
        refit_from(profiled(own_folder, blocks(), **asked))


def test_optimised_convolutions_are_on_blocks(own_folder):
    calibrated.save(made_up_calibration())
    assert "convolution" in {fit.family for fit in refit_from(profiled(own_folder, blocks())).families}


def test_threads_that_were_not_calibrated_are_named(own_folder):
    calibrated.save(made_up_calibration())
    with pytest.raises(InvalidOptionError, match="of 1 and of 2 threads, not of 3"):
        refit_from(profiled(own_folder, products(), threads=3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no profile that ONNX Runtime wrote"),
        ('[{"cat": "Node", "name": "a_kernel_time"', "truncated"),
        ("{}", "Expected `array`"),
        ('[{"cat": "Node", "dur": "long"}]', r"Expected `float`, got `str` - at `\$\[0\].dur`"),
        ('[{"cat": "Node", "dur": -5}]', "Expected `float` >= 0"),
        ('[{"args": {"input_type_shape": [["float"]]}}]', "Expected `object`"),
        ('[{"args": {"output_type_shape": [{"float": [2, -1]}]}}]', "Expected `int` >= 0"),
        ("[]", "no kernel of the CPU provider"),
        ('[{"cat": "Session", "name": "model_run", "dur": 5, "args": {}}]', "no kernel of the CPU provider"),
        (
            '[{"cat":"Node","name":"a_kernel_time","dur":1,"args":{"provider":"CUDAExecutionProvider"}}]',
            "no kernel of the CPU provider",
        ),
        (
            '[{"cat":"Node","name":"_kernel_time","args":{"provider":"CPUExecutionProvider","parameter_size":"x"}}]',
            "no profile that ONNX Runtime wrote",
        ),
    ],
)
def test_files_that_are_no_profile_end_with_two_and_say_why(own_folder, content, message):
    path = own_folder / "trace.json"
    path.write_text(content)
    with pytest.raises(InvalidOptionError, match=message):
        read_profile(path)
    shown = CliRunner().invoke(main, ["calibrate", "--from-profile", str(path)])
    assert shown.exit_code == 2
    assert "trace.json" in shown.stderr
    assert "end_profiling" in shown.stderr


def test_a_file_that_is_not_there_ends_with_two(own_folder):
    shown = CliRunner().invoke(main, ["calibrate", "--from-profile", str(own_folder / "none.json")])
    assert shown.exit_code == 2
    assert "No such file" in shown.stderr


def test_a_profile_that_tells_nothing_saves_nothing(own_folder):
    file = calibrated.save(made_up_calibration())
    before = file.read_bytes()
    content = model(chain("Gelu", 1, domain=CONTRIB), {"v0": (4,)}, {"v1": (4,)})
    shown = CliRunner().invoke(main, ["calibrate", "--from-profile", str(profiled(own_folder, content))])
    assert shown.exit_code == 2
    assert "tells anything of a measured family" in shown.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize("microseconds", [0, 1e300])
def test_a_profile_that_no_run_here_left_saves_nothing(own_folder, microseconds):
    file = calibrated.save(made_up_calibration())
    before = file.read_bytes()
    path = profiled(own_folder, products())
    events = json.loads(path.read_text())
    path.write_text(json.dumps([{**event, "dur": microseconds} for event in events]))
    shown = CliRunner().invoke(main, ["calibrate", "--from-profile", str(path)])
    assert (shown.exit_code, file.read_bytes()) == (2, before)
    assert "what was measured here" in shown.stderr or "tells anything" in shown.stderr


@pytest.mark.usefixtures("own_folder")
def test_the_command_says_what_it_changed_and_saves_it(own_folder):
    calibrated.save(made_up_calibration())
    path = str(profiled(own_folder, products()))
    shown = CliRunner().invoke(main, ["calibrate", "--from-profile", path, "--json"])
    content = json.loads(shown.stdout)
    assert shown.exit_code == 0
    assert content["schema"] == "hetpart.calibrate"
    (fit,) = content["families"]
    assert (fit["family"], fit["kernels"]) == ("gemm", 2)
    kept = calibrated.load()
    assert kept is not None
    assert (fit["points"], fit["all_points"]) == (1, 1)
    expected = made_up_rates().tables["gemm"].times(fit["factor"])
    assert kept.threads["1"].tables["gemm"].seconds == pytest.approx(expected.seconds)
    again = CliRunner().invoke(main, ["calibrate", "--from-profile", path, "--threads", "1"])
    assert again.exit_code == 0
    assert "gemm" in again.stdout
    assert "Written to" in again.stdout


def test_threads_alone_are_refused(own_folder):
    shown = CliRunner().invoke(main, ["calibrate", "--threads", "2"])
    assert shown.exit_code == 2
    assert "--from-profile" in shown.stderr
    assert not list(own_folder.rglob("*.json"))


def test_the_cost_of_profiling_is_some_microseconds_at_most():
    assert 0.0 <= from_profile._noting(1) < 1e-3


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    (tmp_path / "hetpart").touch()
    monkeypatch.setenv(calibrated.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr("hetpart.calibration.measure.sample", lambda *_: pytest.fail("it measures"))
    shown = CliRunner().invoke(main, ["calibrate"])
    assert shown.exit_code == 2
    assert f"calibrations cannot be written to {tmp_path}/hetpart/calibration: Not a directory" in shown.output
