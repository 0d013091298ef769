"""Libraries that only have the names of CUDA's and TensorRT's, so that ONNX Runtime's providers load without them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetpart.errors import HetpartError

_FOREIGN = re.compile(r"\[(lib(?:cu|nv)[^\]]+)\]")
_UNVERSIONED = {"libcu": ("cu",), "libnv": ("create", "get")}
"""How functions are called that carry no version, and so do not tell their library."""


@dataclass(frozen=True, slots=True)
class Stub:
    """A library to make."""

    name: str
    functions: frozenset[str]
    is_versioned: bool
    """Each name carries the library's own as its version, and is not found without it."""


def build(providers: Sequence[Path], folder: Path) -> list[str]:
    """Compile into ``folder`` what ``providers`` link against, every function returning 0; the libraries' names."""
    tools = {name: _tool(name) for name in ("gcc", "readelf", "nm")}
    stubs = _merged(stub for provider in providers for stub in _wanted(provider, tools))
    for stub in stubs:
        _compile(stub, folder, tools["gcc"])
    return [stub.name for stub in stubs]


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise HetpartError(
            f"ONNX Runtime dies listing its kernels, and the stub libraries that prevent it need {name}, not found",
            hint="install gcc and binutils (apt install gcc), or run this where CUDA and TensorRT are installed",
        )
    return path


def _wanted(provider: Path, tools: dict[str, str]) -> Iterator[Stub]:
    libraries = _FOREIGN.findall(_output(tools["readelf"], "-d", str(provider)))
    undefined = [
        _versioned(line) for line in _output(tools["nm"], "-D", "--undefined-only", str(provider)).splitlines()
    ]
    for library in libraries:
        functions = frozenset(name for name, version in undefined if version == library)
        plain = _UNVERSIONED[library[:5]]
        others = frozenset(name for name, version in undefined if not version and name.startswith(plain))
        yield Stub(library, functions or others, bool(functions))


def _versioned(line: str) -> tuple[str, str]:
    name, _, version = line.split()[-1].replace("@@", "@").partition("@")
    return name, version


def _merged(stubs: Iterator[Stub]) -> list[Stub]:
    merged: dict[str, Stub] = {}
    for stub in stubs:
        other = merged.get(stub.name, Stub(stub.name, frozenset(), is_versioned=False))
        merged[stub.name] = Stub(stub.name, stub.functions | other.functions, stub.is_versioned or other.is_versioned)
    return [merged[name] for name in sorted(merged)]


def _compile(stub: Stub, folder: Path, gcc: str) -> None:
    source, versions = folder / f"{stub.name}.c", folder / f"{stub.name}.map"
    source.write_text("".join(f"long {name}(void) {{ return 0; }}\n" for name in sorted(stub.functions)))
    versions.write_text(f"{stub.name} {{ global: *; }};\n")
    options = [f"-Wl,--version-script={versions}"] if stub.is_versioned else []
    flags = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{stub.name}", *options]
    _output(gcc, *flags, "-o", str(folder / stub.name), str(source))


def _output(*command: str) -> str:
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise HetpartError(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
