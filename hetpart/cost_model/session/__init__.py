"""What ONNX Runtime makes of a partition when it loads it: its kernels, their layouts, and the memory they take."""
