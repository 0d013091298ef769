"""Checkpoints in safetensors files: whole or not there, in one part or several."""

from hetpart.training.checkpoint.layout import Part
from hetpart.training.checkpoint.load import Checkpoint, load, merge
from hetpart.training.checkpoint.save import JSON, save
from hetpart.training.optimizers.protocol import STATE

__all__ = ["JSON", "STATE", "Checkpoint", "Part", "load", "merge", "save"]
