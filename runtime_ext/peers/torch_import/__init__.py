"""Write ONNX models, and graphs of our importers, as networks of PyTorch."""
