# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""HPG: whether the file, and those that hold its weights, are whole and legal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetpart.errors import InvalidModelError
from hetpart.graph.external import LFS_HINT, lfs_pointers, weight_problems
from hetpart.linter.rule import Mark, Stage, all_rules, rule
from hetpart.linter.select import nearest, words
from hetpart.linter.suppression import of_every_node, of_model
from hetpart.plan.findings import Severity
from hetpart.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

    from hetpart.linter.subject import Subject

LEAST_OPSET = 7
"""ONNX Runtime promises to run models from this opset on (its document on compatibility)."""
_STANDARD = ("", "ai.onnx")
_SUGGESTED = 20
"""Entries of which the nearest rules are looked for: a file may hold any number."""


@rule(
    "HPG005", "outdated-opset", Severity.WARNING, Stage.FILE,
    hint=f"export with opset {LEAST_OPSET} or later, or convert: `onnx.version_converter.convert_version`",
)  # fmt: skip
def outdated_opset(subject: Subject) -> Iterator[Mark]:
    """An opset that ONNX Runtime does not promise to run.

    ## What it does
    Compares the version of the standard operators that the model imports with the oldest that ONNX Runtime supports.

    ## Why is this bad
    ONNX Runtime loads models from opset 7 on; an older one may load and mean something else.

    ## Example
    `opset_import { version: 6 }`

    ## Use instead
    `opset_import { version: 18 }`, from a new export.
    """
    for entry in subject.proto.opset_import:
        if entry.domain in _STANDARD and entry.version < LEAST_OPSET:
            yield Mark(f"the model is of opset {entry.version}, and ONNX Runtime promises {LEAST_OPSET} and later")


@rule(
    "HPG006", "external-data-missing", Severity.ERROR, Stage.FILE,
    hint="keep the external data files beside the model, whole, as the exporter wrote them",
)  # fmt: skip
def external_data_missing(subject: Subject) -> Iterator[Mark]:
    """Weights that lie in a file which is not there, or not whole.

    ## What it does
    Looks for every file that the model's tensors point into, and whether it reaches as far as they say.

    ## Why is this bad
    The model cannot be loaded.

    ## Example
    `model.onnx` in the repository, and `model.onnx.data` forgotten.

    ## Use instead
    Both files, in one folder.
    """
    for location, problem in weight_problems(subject.locations, subject.loaded.folder):
        yield Mark(f"the weight {problem}", anchor=location)


@rule("HPG007", "git-lfs-pointer", Severity.ERROR, Stage.FILE, hint=LFS_HINT)
def git_lfs_pointer(subject: Subject) -> Iterator[Mark]:
    """A file of weights, or a model, that only says where git-LFS keeps it.

    ## What it does
    Recognises git-LFS pointers where files of weights, or the model itself, should be. A model that is one cannot be
    read: it is reported whatever is selected, and the exit code is 2.

    ## Why is this bad
    The weights, or the model, are not here: the repository was cloned without git-LFS.

    ## Example
    `model.onnx.data` of 134 bytes that begins with `version https://git-lfs`.

    ## Use instead
    `git lfs pull`, and in CI `actions/checkout` with `lfs: true`.
    """
    for path in lfs_pointers(subject.locations, subject.loaded.folder):
        yield Mark(f"{path.name!r} is a git-LFS pointer of {path.stat().st_size} bytes", anchor=path.name)


@rule(
    "HPG010", "illegal-graph", Severity.ERROR, Stage.FILE, tries=Stage.GRAPH,
    hint="the exporter or a later edit broke the graph; `onnx.checker.check_model` shows the same",
)  # fmt: skip
def illegal_graph(subject: Subject) -> Iterator[Mark]:
    """A graph that breaks a rule of ONNX, so that nothing can be planned.

    ## What it does
    Says why hetpart cannot import the model, where it is not for its weights' files. A file that cannot even be read,
    as it is missing, empty or cut short, is reported whatever is selected, and the exit code is 2.

    ## Why is this bad
    No runtime loads it, or one does and computes something else.

    ## Example
    Two nodes that make the same value.

    ## Use instead
    A new export.
    """
    if not isinstance(subject.problem, InvalidModelError):
        return
    missing = weight_problems(subject.locations, subject.loaded.folder)
    pointers = lfs_pointers(subject.locations, subject.loaded.folder)
    if next(missing, None) is None and next(pointers, None) is None:
        yield Mark(subject.problem.message, hint=subject.problem.hint)


@rule(
    "HPG011", "unknown-rule-ignored", Severity.WARNING, Stage.FILE,
    hint="correct it or take it out, or install the package whose rule it is; `hetpart rule` lists all",
)  # fmt: skip
def unknown_rule_ignored(subject: Subject) -> Iterator[Mark]:
    """A `hetpart.ignore` in the model that names no rule.

    ## What it does
    Compares what `hetpart.ignore` says, on the model, its graph and its nodes, with the rules that there are.

    ## Why is this bad
    It suppresses nothing. What was meant to be left out is reported, or will be once it is found.

    ## Example
    `hetpart.ignore` with the value `dead_node`

    ## Use instead
    `dead-node`, or `HPG003`
    """
    rules = all_rules()
    known = words(rules)
    places: dict[str, list[onnx.NodeProto | None]] = {entry: [None] for entry in of_model(subject)}
    for node, ignored in of_every_node(subject):
        for entry in ignored:
            places.setdefault(entry, []).append(node)
    unknown = ((entry, where) for entry, where in places.items() if entry not in known)
    for number, (entry, (first, *others)) in enumerate(unknown):
        more = f" and {format_count(len(others), 'node')} more" if others else ""
        where = "the model" if first is None else f"{first.op_type} {first.name!r}"
        yield Mark(
            f"{entry!r}, which {where}{more} would have ignored, is no rule",
            anchor="" if first is None or first.name else next(iter(first.output), ""),
            op="" if first is None else first.name,
            hint=nearest(entry, rules) if number < _SUGGESTED else "",
        )
