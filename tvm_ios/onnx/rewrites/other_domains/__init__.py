"""Rewrite operators of other domains, ONNX Runtime's own and machine learning's, with ONNX's."""
