"""The steps that bring ONNX models to one form; :mod:`tvm_ios.onnx.simplify` has their order.

- functions: operators that ONNX defines by others, written out
- resize: one form of ``Resize``
- fix_inputs: static shapes for the inputs
- node_names: names for nodes that have none
- misread: what TVM's importer reads wrongly, written another way
- quantised: quantised operators in floats; integers: values of eight bits that floats hold;
  integer_products: sums of products of these, exact; quantised_contrib: ONNX Runtime's own
- recurrent: recurrent layers as cells, with the activations that they name
- einsum: ``Einsum`` as matrix products
- pads: paddings as numbers, and pads that copy elements as gathers
- pass_through: operators that only pass their input on
- expand: hard activations, sums of many, slices and softmaxes in simpler operators
- gemm: one spelling of matrix products with a bias
- layer_norm: layer norms that an exporter spelled out
- affine: batch norms and other arithmetic of channels inside convolutions
- steps: writes operators in the place of one that they stand for
"""
