"""Quantised operators, written in floats that hold the integers exactly.

- operators: those of ONNX; onnxruntime: those of ONNX Runtime's own domain
- integers: values of eight and sixteen bits that floats hold
- dequantised: products of dequantised tensors, of the integers themselves
- integer_products: sums of products of these
"""
