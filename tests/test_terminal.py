from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.text import Text

from hetpart import terminal
from hetpart.terminal import StageBar, show, stdout_kept_free

ROOT = Path(__file__).parent.parent
BAR_SCRIPT = """
import sys
from hetpart import terminal
terminal._PATIENCE_SECONDS = 0.0
with terminal.StageBar() as progress:
    progress("placing [bold]the\\x1b[31m ops")
    sys.stdin.readline()
print("done")
"""


def read_until(descriptor: int, wanted: bytes) -> bytes:
    read = b""
    while wanted not in read:
        read += os.read(descriptor, 4096)
    return read


def test_the_stage_is_shown_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", BAR_SCRIPT]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        shown = read_until(ours, b"ops")
        output, _ = process.communicate(b"\n")
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, output) == (0, b"done\n")
    assert rb"placing [bold]the\x1b[31m ops" in shown


def test_nothing_is_shown_elsewhere() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BAR_SCRIPT], cwd=ROOT, input="\n", capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_bar_that_never_had_to_show_leaves_nothing_running() -> None:
    bar = StageBar()
    with bar as progress:
        progress("quick")
    assert bar._bar is None


def test_what_c_code_prints_goes_to_standard_error() -> None:
    script = (
        "import ctypes, os, sys\n"
        "from hetpart.terminal import print_json, stdout_kept_free\n"
        "libc = ctypes.CDLL(None)\n"
        "with stdout_kept_free(wanted=True):\n"
        "    libc.printf(b'from C, held in its buffer\\n')\n"
        "    print('from Python')\n"
        "    os.system('echo from a child')\n"
        "print_json('test', {'fine': True})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == '{\n  "schema": "hetpart.test",\n  "version": 1,\n  "fine": true\n}\n'
    assert sorted(done.stderr.splitlines()) == ["from C, held in its buffer", "from Python", "from a child"]


def test_a_closed_standard_output_is_no_error() -> None:
    script = "from hetpart.terminal import stdout_kept_free\nwith stdout_kept_free(wanted=True): pass"
    command = f"{sys.executable} -c '{script}' >&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_output_is_given_back_after_an_error() -> None:
    def fail() -> None:
        with stdout_kept_free(wanted=True):
            raise ValueError

    with CliRunner().isolation() as (output, _, _):
        before = sys.stdout
        try:
            fail()
        except ValueError:
            assert sys.stdout is before
        terminal.print_json("test", {})
        assert output.getvalue().startswith(b"{")


def test_a_closed_standard_error_shows_no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """``hetpart run BUNDLE 2>&-``, as daemons start programs."""
    monkeypatch.setattr(sys, "stderr", None)
    with StageBar() as tell:
        tell("told to nobody")


def test_a_closed_standard_output_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """``hetpart report BUNDLE >&-``: Python has no ``sys.stdout`` then."""
    monkeypatch.setattr(sys, "stdout", None)
    show([Text("told to nobody")])
