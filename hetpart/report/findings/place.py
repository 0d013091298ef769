"""Where CI systems look for a file: below the folder that a command runs in, which is a repository's root there."""

from __future__ import annotations

import os
from pathlib import Path


def from_here(file: str) -> str:
    """``file`` relative to the current folder, with slashes; as it is where it lies elsewhere."""
    here = os.getcwd()
    path = Path(os.path.normpath(file))
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()
