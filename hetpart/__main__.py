"""``python -m hetpart`` is ``hetpart``."""

from hetpart.cli import main

main(prog_name="hetpart")
