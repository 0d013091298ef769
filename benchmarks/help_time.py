"""Wall seconds of ``hetpart --help`` in fresh processes.

    python -m benchmarks.help_time [--rounds 30]

It takes turns with ``python -c pass``, which is what any Python program costs here, and with the import of click, which
is what any program of that library costs. Reach: 150 ms.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks.measure import ROOT, Spread, emit, interleaved, machine_facts

REACH_SECONDS = 0.150
CONSOLE_SCRIPT = "import sys; from hetpart.cli import main; sys.argv[0] = 'hetpart'; sys.exit(main())"
"""What pip writes into the file ``hetpart``: it works where hetpart is only on the path, too."""
COMMANDS = {
    "hetpart --help": (sys.executable, "-c", CONSOLE_SCRIPT, "--help"),
    "python -m hetpart --help": (sys.executable, "-m", "hetpart", "--help"),
    "python -c 'import hetpart'": (sys.executable, "-c", "import hetpart"),
    "python -c 'import click'": (sys.executable, "-c", "import click"),
    "python -c pass": (sys.executable, "-c", "pass"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    facts = machine_facts()
    rivals = [partial(_run, command) for command in COMMANDS.values()]
    for rival in rivals:
        rival()  # the files it reads are in memory from here on
    seconds = dict(zip(COMMANDS, map(Spread.of, interleaved(rivals, arguments.rounds)), strict=True))
    reached = seconds["hetpart --help"].median
    emit(
        "help_time",
        {
            "machine": facts,
            "reach_seconds": REACH_SECONDS,
            "median_seconds": reached,
            "reached": reached <= REACH_SECONDS,
            "seconds": seconds,
        },
    )


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


if __name__ == "__main__":
    main()
