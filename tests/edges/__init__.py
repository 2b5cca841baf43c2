"""Operators at NaN, infinities, the largest numbers and both zeros.

- table: the operators and the numbers
- running: what programs of many of them compute, ours and others'
- test_edges: of ONNX
- test_chosen_numbers: the largest of windows and of rows
- test_relative_errors: of functions of one number, tails included
- test_torch_edges: of ``torch.export``
"""
