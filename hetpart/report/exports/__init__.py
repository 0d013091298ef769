"""A plan for other programs to show."""
