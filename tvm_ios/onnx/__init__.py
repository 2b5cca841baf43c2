"""ONNX models: read with care, simplified, and turned into an operator graph without TVM."""
