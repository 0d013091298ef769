# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""What a model says itself is not to be reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hetpart.linter.select import entries, words

if TYPE_CHECKING:
    import onnx

    from hetpart.linter.rule import Rule
    from hetpart.linter.subject import Subject

IGNORE_KEY = "hetpart.ignore"
"""Of ``metadata_props`` on the model, its graph or a node: what is not to be reported there, as ``--ignore`` has it."""


def of_model(subject: Subject) -> tuple[str, ...]:
    """What is not to be reported anywhere in it."""
    return (*_ignored(subject.proto.metadata_props), *_ignored(subject.proto.graph.metadata_props))


def of_node(node: onnx.NodeProto) -> tuple[str, ...]:
    """What is not to be reported of ``node``."""
    return _ignored(node.metadata_props)


def of_every_node(subject: Subject) -> Iterator[tuple[onnx.NodeProto, tuple[str, ...]]]:
    """The file's nodes that say so of themselves, those inside others too."""
    said = ((node, of_node(node)) for node in subject.all_nodes if node.metadata_props)
    return ((node, ignored) for node, ignored in said if ignored)


def is_ignored(rule: Rule, ignored: Sequence[str]) -> bool:
    """Whether an entry of ``ignored`` speaks of ``rule``."""
    return not words((rule,)).isdisjoint(ignored)


def _ignored(properties: Sequence[onnx.StringStringEntryProto]) -> tuple[str, ...]:
    return entries(entry.value for entry in properties if entry.key == IGNORE_KEY)
