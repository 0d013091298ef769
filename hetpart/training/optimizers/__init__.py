"""Optimizers as frozen records that update tensors in place."""

from hetpart.training.optimizers.dense import SGD, Adagrad, Adam, AdamW, Momentum
from hetpart.training.optimizers.ftrl import FTRL
from hetpart.training.optimizers.groups import Assignment, Group, Groups, assign
from hetpart.training.optimizers.master import update_master_
from hetpart.training.optimizers.protocol import Optimizer, RowOptimizer, State
from hetpart.training.optimizers.rows import LazyAdam, SparseAdagrad, SparseFTRL, SparseSGD, rowwise

__all__ = [
    "FTRL",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Assignment",
    "Group",
    "Groups",
    "LazyAdam",
    "Momentum",
    "Optimizer",
    "RowOptimizer",
    "SparseAdagrad",
    "SparseFTRL",
    "SparseSGD",
    "State",
    "assign",
    "rowwise",
    "update_master_",
]
