"""Rules of other packages, which say by an entry point of the group ``hetpart.rules`` where theirs are."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from hetpart.errors import HetpartError

GROUP = "hetpart.rules"


@cache
def enter_others() -> None:
    """Import every module that such an entry point names, which enters its rules.

    Raises:
        HetpartError: one cannot be imported, or its rules cannot be entered.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        _load(entry)


def _load(entry: EntryPoint) -> None:
    try:
        entry.load()
    except Exception as error:  # what another package does on import may raise anything
        package = entry.dist.name if entry.dist else "a package"
        raise HetpartError(
            f"the rules {entry.value!r} of {package} cannot be loaded: {type(error).__name__}: {error}",
            hint=f"update {package}, or remove it: `pip uninstall {package}`",
        ) from error
