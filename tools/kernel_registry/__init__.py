"""Reads ONNX Runtime's own kernel registry into ``hetpart/cost_model/kernels.json``."""
