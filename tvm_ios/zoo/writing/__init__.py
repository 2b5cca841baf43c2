"""Writers of the zoo's networks as ONNX models."""
