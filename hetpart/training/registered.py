"""All operators of a training step: importing this registers them."""

from hetpart.training import operators, random_operators, row_operators

__all__ = ["operators", "random_operators", "row_operators"]
