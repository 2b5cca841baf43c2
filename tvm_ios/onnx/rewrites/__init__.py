"""The steps that bring ONNX models to one form; :mod:`tvm_ios.onnx.simplify` has their order.

- modernise: a newer opset for models whose resizes or slices are of an old one
- functions: operators that ONNX defines by others, written out
- split_constants: splits of constants
- fix_inputs: static shapes for the inputs
- empty: what has no elements is a constant
- node_names: names for nodes that have none
- quantised: quantised operators in floats; integers: values of eight bits that floats hold;
  integer_products: sums of products of these, exact; quantised_contrib: ONNX Runtime's own
- plainly: which operators are written in others that TVM's importer reads rightly, by these:
  - misread: what it reads wrongly
  - arithmetic: types that it does not compute with
  - declared: operators of a size that is an input, which the declared shape says too
  - statistics: layer norms whose means and deviations are read
  - normalisations: norms, and determinants
  - places: reversed sequences and caches, as gathers of rows
  - windows: columns of windows, and where the largest of windows lie, as gathers
  - fourier: Fourier transforms as products
  - deform: convolutions of pixels that lie where an input says
  - n_grams: how often groups of numbers stand in a row
- recurrent: recurrent layers as cells, with the activations that they name
- einsum: ``Einsum`` as matrix products
- control_flow: ``If``, ``Loop`` and ``Scan`` that are known beforehand, with bodies and trip_count
- sequences: sequences and optional values whose content is known
- compress: ``Compress`` by a known condition as a gather
- pads: paddings as numbers, and pads that copy elements as gathers
- pass_through: operators that only pass their input on
- resize: one form of ``Resize``, or sums of pixels
- resample: which pixels each pixel is a sum of, with exact weights
- expand: hard activations, sums of many, slices and softmaxes in simpler operators
- gemm: one spelling of matrix products with a bias
- layer_norm: layer norms that an exporter spelled out
- affine: batch norms and other arithmetic of channels inside convolutions
- steps: writes operators in the place of one that they stand for
"""
