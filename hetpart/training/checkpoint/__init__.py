"""Checkpoints in safetensors files: whole or not there, in one part or several."""

from hetpart.training.checkpoint.layout import Part
from hetpart.training.checkpoint.load import STATE, Checkpoint, load, merge
from hetpart.training.checkpoint.save import JSON, save

__all__ = ["JSON", "STATE", "Checkpoint", "Part", "load", "merge", "save"]
