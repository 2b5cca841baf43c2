"""ONNX models: read with care, simplified, and turned into an operator graph without TVM.

- file: reads files without trust; supported: refuses simplified models that cannot be compiled
- tolerated: normalises forms that runtimes tolerate; valid: refuses models that no runtime takes
- batch: another batch size for a model of fixed shapes; join: several models as one
- tail: the end of a model whose shapes depend on the data, cut off
- shape_inference: shapes and types of all values of a model
- simplify: the list of steps that a model goes through, which lie in rewrites/
- edit: small edits of a graph of ``onnx_ir`` and queries about nodes, which many steps share
- known_shapes: open extents that can be inferred; weights_want: those that weights determine
- inputs: a model's inputs; edge_inputs: values of them that find mistakes; spreading_nan: NaN
  that goes through convolutions
- cut: the beginning of a model
- as_written: the model that other packages' runtimes run
- graph: from a simplified model to an operator graph
- operators: ONNX operators in canonical kinds; windows: those on windows; canonical: the form
"""
