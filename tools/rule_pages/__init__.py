"""Writes ``docs/rules`` from the rules' own documentation: ``python -m tools.rule_pages``."""
