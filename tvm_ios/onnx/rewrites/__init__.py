"""The steps that bring ONNX models to one form; :mod:`tvm_ios.onnx.simplify` has their order.

- legacy: operators of opset 6 and older as those of opset 7
- modernise: a newer opset for models whose resizes or slices are of an old one
- group_norm: group norms of which ONNX infers no shape
- functions: operators that ONNX defines by others, written out
- split_constants: splits of constants
- fix_inputs: static shapes for the inputs
- ceil_mode: pools without windows that begin in the padding
- empty: what has no elements is a constant
- node_names: names for nodes that have none
- other_domains: operators of ONNX Runtime's own, and of machine learning, in those of ONNX
- quantised: quantised operators in floats
- random: random numbers that are multiplied by zero
- plainly: operators that TVM's importer reads wrongly or not at all, in others
- recurrent: recurrent layers as cells, with the activations that they name
- einsum: ``Einsum`` as matrix products
- control: control flow and sequences that are known beforehand
- pads: paddings as numbers, and pads that copy elements as gathers
- one_row: convolutions and pools along one axis, as those of images of one row
- pass_through: operators that only pass their input on
- resize: one form of ``Resize``, or sums of pixels
- resample: which pixels each pixel is a sum of, with exact weights
- expand: hard activations, sums of many, slices and softmaxes in simpler operators
- gemm: one spelling of matrix products with a bias
- layer_norm: layer norms that an exporter spelled out
- affine: batch norms and other arithmetic of channels inside convolutions
- steps: writes operators in the place of one that they stand for
"""
