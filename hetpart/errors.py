"""Errors a user can act on: what, where and the numbers; then what to do."""

from __future__ import annotations


class HetpartError(Exception):
    """A problem the user can mend. ``hint`` says how; ``exit_code`` is what the command line returns."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InvalidModelError(HetpartError):
    """The model file cannot be read, or is not a legal ONNX model."""


class MissingContentError(HetpartError):
    """A model was planned without the content of its weights: the plan can be read, and not be run or saved."""


class UnboundDimensionsError(HetpartError):
    """Symbolic dimensions of the graph inputs have no number yet."""


class InvalidOptionError(HetpartError):
    """An option's value cannot be understood, or contradicts the model."""


class UnknownDimensionError(InvalidOptionError):
    """``dimensions`` of an option are none of the model's."""

    def __init__(self, message: str, *, dimensions: frozenset[str], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.dimensions = dimensions


class UnmatchedPatternError(InvalidOptionError):
    """A pattern of an option matches no op of the model."""


class InvalidBundleError(HetpartError):
    """A bundle or plan file cannot be opened, or no longer matches its weights."""


class InvalidCheckpointError(HetpartError):
    """A checkpoint is not there, cannot be read, or is not of this model and optimizer."""


class InvalidFeedError(HetpartError, ValueError):
    """A feed's name, shape or dtype is not what the plan was made for. ONNX Runtime raises ``ValueError`` for some."""


class DeviceUnavailableError(HetpartError):
    """The plan names a device this machine does not have."""


class ExecutionError(HetpartError):
    """A partition failed while it ran, or could not be loaded."""


class MismatchError(HetpartError):
    """``--check`` found a result that differs from the uncut model's."""

    exit_code = 1


class InfeasibleError(HetpartError):
    """No placement fits the budget. ``required_bytes`` is the smallest that would do, of ``device`` if it is named."""

    exit_code = 1

    def __init__(self, message: str, *, required_bytes: int, device: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.required_bytes, self.device = required_bytes, device


class HetpartWarning(UserWarning):
    """Something that was asked for has no effect, and nothing is wrong with the rest."""
