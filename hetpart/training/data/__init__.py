"""Batches: of files that the user has, or drawn with a signal in them."""

from hetpart.training.data.criteo import KAGGLE_CARDINALITIES, Criteo
from hetpart.training.data.images import cifar, mnist
from hetpart.training.data.prefetch import prefetch
from hetpart.training.data.synthetic import Clicks, Pictures, Tokens

__all__ = ["KAGGLE_CARDINALITIES", "Clicks", "Criteo", "Pictures", "Tokens", "cifar", "mnist", "prefetch"]
