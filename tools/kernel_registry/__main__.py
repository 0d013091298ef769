"""Reads ONNX Runtime's own kernel registry into hetpart's data file.

    python -m tools.kernel_registry            # writes hetpart/cost_model/kernels.json
    python -m tools.kernel_registry --check    # compares, writes nothing: exit code 1 and the difference where one is

It needs onnxruntime-gpu, no GPU: where the call dies for want of CUDA's libraries, gcc builds stubs of them.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hetpart.errors import HetpartError
from tools.kernel_registry.ask import ROOT, ask
from tools.kernel_registry.facts import Facts, in_words, to_json
from tools.kernel_registry.merge import merge
from tools.kernel_registry.records import Probed

DATA_FILE = ROOT / "hetpart" / "cost_model" / "kernels.json"
PROBED_FILE = Path(__file__).parent / "probed.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare the data file; the exit code: 0, 1 where ``--check`` finds a difference, 2 for an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=DATA_FILE, metavar="FILE", help="default: hetpart's own")
    parser.add_argument("--check", action="store_true", help="compare with FILE and write nothing")
    options = parser.parse_args(arguments)
    try:
        facts = merge(ask(_say), msgspec.toml.decode(PROBED_FILE.read_bytes(), type=Probed))
        _say_what_falls_short(facts)
        return _check(options.output, to_json(facts)) if options.check else _write(options.output, to_json(facts))
    except (HetpartError, OSError) as error:
        _say(f"error: {error}")
        return 2


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _say_what_falls_short(facts: Facts) -> None:
    for constraint in facts.unplaced:
        _say(f"left out, no operand of the schema has it: {constraint}")
    if facts.probed != facts.onnxruntime:
        _say(
            f"warning: probed.toml speaks of ONNX Runtime {facts.probed}, the kernels are those of {facts.onnxruntime}"
        )


def _write(file: Path, text: str) -> int:
    file.write_text(text, encoding="utf-8")
    _say(f"{file} written")
    return 0


def _check(file: Path, text: str) -> int:
    committed = file.read_text(encoding="utf-8")
    if committed == text:
        _say(f"{file} is what this ONNX Runtime says")
        return 0
    try:
        before, now = in_words(committed), in_words(text)
    except json.JSONDecodeError as error:
        raise HetpartError(f"{file} is no JSON: {error}", hint="write it anew without --check") from error
    lines = [*difflib.unified_diff(before, now, str(file), "this ONNX Runtime", lineterm="", n=0)]
    sys.stdout.writelines(f"{line}\n" for line in lines or [f"{file} has the same facts in other words"])
    return 1


if __name__ == "__main__":
    sys.exit(main())
