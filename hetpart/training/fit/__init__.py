"""The training loop: progress, evaluation, callbacks and logs."""

from hetpart.training.fit.events import Callback, Ended, Evaluated, Event, Trained
from hetpart.training.fit.logs import Checkpoints, CSVLog, TensorBoard
from hetpart.training.fit.loop import Evaluation, History, fit
from hetpart.training.fit.metrics import Metric, accuracy, auc

__all__ = [
    "CSVLog",
    "Callback",
    "Checkpoints",
    "Ended",
    "Evaluated",
    "Evaluation",
    "Event",
    "History",
    "Metric",
    "TensorBoard",
    "Trained",
    "accuracy",
    "auc",
    "fit",
]
