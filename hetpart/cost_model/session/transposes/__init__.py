"""Transposes where ONNX Runtime's optimiser leaves them: pushed on towards those that undo them."""
