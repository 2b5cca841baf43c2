"""ONNX models, and what our importers make of them, as networks of PyTorch."""
