"""Writes ``docs/rules.md`` from the rules' own documentation: ``python -m tools.rule_pages``."""
