"""What ONNX Runtime rewires in a session: Transposes pushed on towards those that undo them, dequantizers added."""
