"""The training loop: progress, evaluation, callbacks and logs."""

from hetpart.training.fitting.events import Callback, Ended, Evaluated, Event, StopTraining, Trained
from hetpart.training.fitting.logs import Checkpoints, CSVLog, TensorBoard
from hetpart.training.fitting.loop import Evaluation, History, fit
from hetpart.training.fitting.metrics import Metric, accuracy, auc

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
    "StopTraining",
    "TensorBoard",
    "Trained",
    "accuracy",
    "auc",
    "fit",
]
