"""Rewrites that bring ONNX models to one form; :mod:`tvm_ios.onnx.simplify` has their order.

- legacy: operators of opset 6 and older as those of opset 7
- modernise: a newer opset for models whose resizes or slices are of an old one
- group_norm: group norms of which ONNX infers no shape
- functions: operators that ONNX defines by others, inlined
- split_constants: splits of constants, folded
- fix_inputs: static shapes for the inputs
- ceil_mode: pools without windows that begin in the padding
- empty: constants for tensors without elements
- node_names: names for nodes that have none
- other_domains: operators of ONNX Runtime and of machine learning, in those of ONNX
- quantised: quantised operators in floats
- random: random numbers that are multiplied by zero, or drawn once
- plainly: operators that TVM's importer reads wrongly or not at all, in others
- recurrent: recurrent layers as cells; activations: the activations that they name
- einsum: ``Einsum`` as matrix products
- control: control flow and sequences that are known at compile time
- pads: explicit paddings, and pads that copy elements as gathers
- one_row: convolutions and pools along one axis, as those of images of one row
- pass_through: operators that return their input, removed
- resize: one form of ``Resize``, or sums of pixels
- resample: the exact weights of the pixels in these sums
- expand: hard activations, sums of many, slices and softmaxes in simpler operators
- gemm: one spelling of matrix products with a bias
- layer_norm: layer norms that an exporter spelled out, fused
- affine: batch norms and other per-channel arithmetic, folded into convolutions
- steps: the writer of operators that replace a node
"""
