"""Rewrites that bring ONNX models to one form; :mod:`tvm_ios.onnx.simplify` has their order."""
