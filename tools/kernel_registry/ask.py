"""Gets the dump out of the installed ONNX Runtime, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from hetpart.errors import HetpartError
from tools.kernel_registry import stubs
from tools.kernel_registry.records import Dump

ROOT = Path(__file__).parents[2]
CUDA_PROVIDER = "libonnxruntime_providers_cuda.so"


def ask(say: Callable[[str], None]) -> Dump:
    """What the installed ONNX Runtime says of its kernels; ``say`` is told of each attempt.

    Raises:
        HetpartError: it has no CUDA provider, or dies even with stub libraries, or those cannot be built.
    """
    capi = _capi()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = _attempt(folder, {})
        if isinstance(plain, Dump):
            return plain
        say(f"ONNX Runtime {_death(plain)} listing its kernels without help: building stubs of CUDA's libraries")
        built = stubs.build(sorted(capi.glob("libonnxruntime_providers_*.so")), folder)
        say(f"built {', '.join(built)} in a temporary folder")
        helped = _attempt(folder, {"LD_LIBRARY_PATH": str(folder)})
    if isinstance(helped, Dump):
        return helped
    raise HetpartError(
        f"ONNX Runtime {_death(helped)} listing its kernels even with stubs of {', '.join(built)}:\n"
        f"{helped.stderr.strip()[-2000:]}",
        hint="run this where CUDA and TensorRT are installed",
    )


def _capi() -> Path:
    """The folder of ONNX Runtime's libraries, found without importing it."""
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise HetpartError("no ONNX Runtime is installed", hint="pip install onnxruntime-gpu")
    capi = Path(spec.origin).parent / "capi"
    if not (capi / CUDA_PROVIDER).exists():
        raise HetpartError(
            f"{capi} has no {CUDA_PROVIDER}: this ONNX Runtime knows no CUDA kernels",
            hint="install onnxruntime-gpu in place of onnxruntime (Linux)",
        )
    return capi


def _attempt(folder: Path, environment: Mapping[str, str]) -> Dump | subprocess.CompletedProcess[str]:
    """The dump, or the process that left none. Its working folder is ``folder``: it may leave a core file."""
    answer = folder / "dump.json"
    command = [sys.executable, "-m", "tools.kernel_registry.dump", str(answer)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    known = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=known)
    return msgspec.json.decode(answer.read_bytes(), type=Dump) if done.returncode == 0 else done


def _death(process: subprocess.CompletedProcess[str]) -> str:
    code = process.returncode
    return f"dies of signal {-code}" if code < 0 else f"fails with exit code {code}"
