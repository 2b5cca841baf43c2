"""Rewrite quantised operators in floats that hold the integers exactly.

- operators: those of ONNX; onnxruntime: those of ONNX Runtime's own domain
- integers: values of eight and sixteen bits, held as floats
- dequantised: products of dequantised tensors, computed on the integers
- integer_products: exact sums of products of integers
"""
