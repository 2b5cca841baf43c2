"""Quantised operators, written in floats that hold the integers exactly.

- operators: those of ONNX; onnxruntime: those of ONNX Runtime's own domain
- integers: values of eight and sixteen bits that floats hold
- integer_products: sums of products of these
"""
