"""Lint the models that variables ``HETPART_…`` name, as they say: inputs of ``action.yml``, never read as shell.

Run by the Python of the environment that hetpart was installed into. The answer is hetpart's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from glob import glob
from pathlib import Path

FLAGS = ("hardware", "budget", "shape", "plan", "select", "extend-select", "ignore", "baseline", "fail-on")
"""Inputs that are options of ``hetpart lint``."""


def command(environment: Mapping[str, str], sarif: Path) -> list[str]:
    """The command line behind the interpreter: nothing in the current folder is imported."""
    given = {flag: environment.get(f"HETPART_{flag.upper().replace('-', '_')}", "") for flag in FLAGS}
    options = [f"--{flag}={value}" for flag, value in given.items() if value]
    scans = environment.get("HETPART_CODE_SCANNING") == "true"
    form = ["--format=sarif", f"--output={sarif}"] if scans else ["--format=github"]
    models = _models(environment.get("HETPART_MODELS", "").splitlines())
    return ["-P", "-m", "hetpart", "lint", *options, *form, "--", *models]


def _models(patterns: Iterable[str]) -> list[str]:
    """Files by pattern; what matches none stands for itself, and hetpart says that it is not there."""
    stripped = [pattern.strip() for pattern in patterns if pattern.strip()]
    return [file for pattern in stripped for file in sorted(glob(pattern, recursive=True)) or [pattern]]


def main() -> int:
    """Lint, say where a file for code scanning is, and return hetpart's own answer."""
    sarif = Path(os.environ["RUNNER_TEMP"]) / "hetpart.sarif"
    sarif.unlink(missing_ok=True)
    answer = subprocess.run([sys.executable, *command(os.environ, sarif)], check=False).returncode
    if sarif.exists():
        with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
            outputs.write(f"sarif={sarif}\n")
    return answer


if __name__ == "__main__":
    sys.exit(main())
