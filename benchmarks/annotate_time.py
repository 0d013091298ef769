"""Seconds to price a model of 10,000 nodes on every device, once it is imported; what its import takes; and all of it.

    python -m benchmarks.annotate_time [--nodes 10000] [--processes 5]

The model is made of transformer layers as exporters write them: in a stack, where all layers are alike, or side by side
with other shapes in each, where no two are. They are priced by the profile of a processor, and by the calibration of
this machine where there is one (``hetpart calibrate`` makes it): kernel by kernel, which takes longer. Each process is
fresh and prices the model a few times; what that imports is imported before the clock starts. The first of a process is
the figure for a user's command. ``call`` is ``hetpart.annotate(model)`` of the model in memory, import and all. Reach:
1 s for each where layers are alike, as those of a model are; where no two are, and for the whole command, ``reached``
says by itself whether they keep it.

``whole`` is ``hetpart annotate FILE`` as a user types it: the interpreter started, everything imported from bytecode as
it is after the first command, the file read, bound and folded, priced, and the rows written. ``lint`` is ``hetpart lint
FILE``, every stage that needs no budget; ``lint_time`` has its reach.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Spread, emit, fresh_process, machine_facts, say
from benchmarks.table import Cell, print_table

if TYPE_CHECKING:
    import onnx

REACH_SECONDS = 1.0
HARDWARE = "l4+generic-2core"
CALIBRATED = "l4+host"
PRICED_PER_PROCESS = 3
PRICED, WHOLE = ("first_seconds", "call_cpu_seconds"), ("whole_cpu_seconds",)
_LAYER = """
[{0}_query_MatMul] q0{0} = MatMul (x{0}, w) [{0}_query_Add] q{0} = Add (q0{0}, b)
[{0}_key_MatMul] k0{0} = MatMul (x{0}, w) [{0}_key_Add] k{0} = Add (k0{0}, b)
[{0}_value_MatMul] v0{0} = MatMul (x{0}, w) [{0}_value_Add] v{0} = Add (v0{0}, b)
[{0}_Reshape] q1{0} = Reshape (q{0}, heads) [{0}_Transpose] q2{0} = Transpose <perm = [0, 2, 1, 3]> (q1{0})
[{0}_Reshape_1] k1{0} = Reshape (k{0}, heads) [{0}_Transpose_1] k2{0} = Transpose <perm = [0, 2, 3, 1]> (k1{0})
[{0}_Reshape_2] v1{0} = Reshape (v{0}, heads) [{0}_Transpose_2] v2{0} = Transpose <perm = [0, 2, 1, 3]> (v1{0})
[{0}_MatMul] s0{0} = MatMul (q2{0}, k2{0}) [{0}_Mul] s1{0} = Mul (s0{0}, scale) [{0}_Softmax] s{0} = Softmax (s1{0})
[{0}_MatMul_1] c0{0} = MatMul (s{0}, v2{0}) [{0}_Transpose_3] c1{0} = Transpose <perm = [0, 2, 1, 3]> (c0{0})
[{0}_Reshape_3] c{0} = Reshape (c1{0}, flat)
[{0}_out_MatMul] o0{0} = MatMul (c{0}, w) [{0}_out_Add] o{0} = Add (o0{0}, b)
[{0}_Add] r{0} = Add (o{0}, x{0}) [{0}_norm] n{0} = LayerNormalization (r{0}, b, b)
[{0}_up_MatMul] u0{0} = MatMul (n{0}, up) [{0}_up_Add] u1{0} = Add (u0{0}, wide) [{0}_act_Gelu] u{0} = Gelu (u1{0})
[{0}_down_MatMul] d0{0} = MatMul (u{0}, down) [{0}_down_Add] d{0} = Add (d0{0}, b)
[{0}_Add_1] e{0} = Add (d{0}, n{0}) [{0}_norm_1] {1} = LayerNormalization (e{0}, b, b)
"""
LAYER_NODES = 29


def _median(key: str) -> Cell:
    return lambda row: f"{row[key].median:.3f}"


COLUMNS: Mapping[str, Cell] = {
    "layers": lambda row: row["layers"],
    "priced by": lambda row: "calibration" if row["hardware"] == CALIBRATED else "profile",
    "first s": _median("first_seconds"),
    "first CPU s": _median("first_cpu_seconds"),
    "later s": _median("later_seconds"),
    "import s": _median("import_seconds"),
    "call CPU s": _median("call_cpu_seconds"),
    "rows s": _median("rows_seconds"),
    "whole s": _median("whole_seconds"),
    "whole CPU s": _median("whole_cpu_seconds"),
    "lint s": _median("lint_seconds"),
    "lint CPU s": _median("lint_cpu_seconds"),
    "nodes": lambda row: f"{row['nodes_in_file']:,}",
    "ops": lambda row: f"{row['ops']:,}",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=5, help="fresh processes for each model")
    parser.add_argument("--child", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--hardware", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_child(arguments.child, arguments.nodes, arguments.hardware)))
    else:
        facts = machine_facts()
        emit("annotate_time", {"machine": facts, **_measure(arguments.nodes, arguments.processes)})


def _measure(nodes: int, processes: int) -> dict[str, Any]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {
        (name, hardware): [] for hardware in _hardware() for name in MODELS
    }
    for turn in range(processes):
        say(f"annotate_time: turn {turn + 1} of {processes}")
        for (name, hardware), children in found.items():
            of = ("--nodes", str(nodes), "--child", name, "--hardware", hardware)
            children.append(fresh_process("benchmarks.annotate_time", *of))
    rows = [{"layers": name, "hardware": hardware, **_row(runs)} for (name, hardware), runs in found.items()]
    print_table(COLUMNS, sorted(rows, key=lambda row: -row["first_seconds"].median))
    return {
        "reach_seconds": REACH_SECONDS,
        "reached": {kind: _slowest(rows, kind, PRICED) <= REACH_SECONDS for kind in MODELS}
        | {"whole command": _slowest(rows, "alike", WHOLE) <= REACH_SECONDS},
        "models": rows,
    }


def _slowest(rows: Sequence[Mapping[str, Any]], kind: str, keys: Sequence[str]) -> float:
    """The largest median of ``keys`` over the rows of one kind of layers."""
    return max(row[key].median for row in rows if row["layers"] == kind for key in keys)


def _hardware() -> tuple[str, ...]:
    """What models are priced on."""
    from hetpart import load_machine

    if load_machine(CALIBRATED).host.rates is not None:
        return (HARDWARE, CALIBRATED)
    say("annotate_time: this machine is not calibrated, so nothing is priced by a calibration")
    return (HARDWARE,)


def _row(children: list[dict[str, Any]]) -> dict[str, Any]:
    firsts = [child["annotate"][0] for child in children]
    return {
        "nodes_in_file": children[0]["nodes"],
        "ops": children[0]["ops"],
        "first_seconds": Spread.of([first["seconds"] for first in firsts]),
        "first_cpu_seconds": Spread.of([first["cpu_seconds"] for first in firsts]),
        "later_seconds": Spread.of([later["seconds"] for child in children for later in child["annotate"][1:]]),
        "import_seconds": Spread.of([child["import"]["seconds"] for child in children]),
        "import_cpu_seconds": Spread.of([child["import"]["cpu_seconds"] for child in children]),
        "call_cpu_seconds": Spread.of([child["call"]["cpu_seconds"] for child in children]),
        "rows_seconds": Spread.of([child["rows"]["seconds"] for child in children]),
        "whole_seconds": Spread.of([child["whole"]["seconds"] for child in children]),
        "whole_cpu_seconds": Spread.of([child["whole"]["cpu_seconds"] for child in children]),
        "lint_seconds": Spread.of([child["lint"]["seconds"] for child in children]),
        "lint_cpu_seconds": Spread.of([child["lint"]["cpu_seconds"] for child in children]),
    }


def _child(kind: str, nodes: int, hardware: str) -> dict[str, Any]:
    import hetpart
    from hetpart.cost_model.annotate import annotate

    build = MODELS[kind]
    small, model = build(1), build(-(-nodes // LAYER_NODES))
    machine = hetpart.load_machine(hardware)
    annotate(hetpart.load(small), machine).rows()  # imports what pricing needs
    graph, imported = _timed(lambda: hetpart.load(model))
    priced = [_timed(lambda: annotate(graph, machine)) for _ in range(PRICED_PER_PROCESS)]
    _, rows = _timed(priced[0][0].rows)
    _, call = _timed(lambda: hetpart.annotate(model, hardware=hardware))
    return {
        "nodes": len(model.graph.node),
        "ops": len(graph.ops),
        "annotate": [seconds for _, seconds in priced],
        "import": imported,
        "rows": rows,
        "call": call,
        **_commands(model, hardware),
    }


def _commands(model: onnx.ModelProto, hardware: str) -> dict[str, dict[str, float]]:
    """What commands on the model's file take, their process and all."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layers.onnx"
        file.write_bytes(model.SerializeToString())
        priced = ["annotate", str(file), "--hardware", hardware]
        linted = ["lint", str(file), "--hardware", hardware, "--exit-zero"]
        return {"whole": _command(priced, folder), "lint": _command(linted, folder)}


def _command(arguments: list[str], folder: str) -> dict[str, float]:
    """Seconds of a command whose modules are compiled, as all are that ran before."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
    command = [sys.executable, "-m", "hetpart", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    before, wall = os.times(), perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    seconds, after = perf_counter() - wall, os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return {"seconds": seconds, "cpu_seconds": used}


def _timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, cpu = perf_counter(), process_time()
    result = work()
    return result, {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}


def stack(layers: int) -> onnx.ModelProto:
    """So many layers of width 256 over 128 tokens, one after the other."""
    names = [f"L{number}" for number in range(layers)]
    followers = [f"x{name}" for name in (*names[1:], "END")]
    return _model(dict(zip(names, followers, strict=True)), {names[0]: 128}, {"xEND": 128})


def row(layers: int) -> onnx.ModelProto:
    """So many layers side by side, each over another number of tokens."""
    tokens = {f"L{number}": 128 + number for number in range(layers)}
    return _model({name: f"y{name}" for name in tokens}, tokens, {f"y{name}": size for name, size in tokens.items()})


MODELS: Mapping[str, Callable[[int], onnx.ModelProto]] = {"alike": stack, "distinct": row}


def _model(layers: Mapping[str, str], inputs: Mapping[str, int], outputs: Mapping[str, int]) -> onnx.ModelProto:
    """A layer for each name, writing the value beside it; sizes are tokens. All share their weights."""
    import numpy as np
    from onnx import numpy_helper, parser

    text = "".join(_LAYER.format(name, end) for name, end in layers.items())
    given = ", ".join(f"float[1,{tokens},256] x{name}" for name, tokens in inputs.items())
    made = ", ".join(f"float[1,{tokens},256] {name}" for name, tokens in outputs.items())
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> layers ({given}) => ({made}) {{ {text} }}')
    shapes = {"w": (256, 256), "b": (256,), "up": (256, 1024), "wide": (1024,), "down": (1024, 256), "scale": ()}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    arrays |= {"heads": np.array([1, -1, 4, 64]), "flat": np.array([1, -1, 256])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


if __name__ == "__main__":
    main()
