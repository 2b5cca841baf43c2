"""ONNX models: read with care, simplified, and turned into an operator graph without TVM.

- file: reads files that may be anything; supported: what a simplified model must not hold
- tolerated: forms that runtimes tolerate, as the one that all else reads; valid: what none takes
- batch: another batch size for a model of fixed shapes; join: several models as one
- tail: the end of a model whose shapes depend on the data, cut off
- shape_inference: shapes and types of all values of a model
- simplify: the list of steps that a model goes through, which lie in rewrites/
- edit: small edits of a graph of ``onnx_ir``, and questions about nodes, which many steps share
- known_shapes: extents that a model leaves open and that follow; weights_want: from its weights
- inputs: a model's inputs; edge_inputs: values of them that find mistakes; spreading_nan: NaN
  that goes through convolutions
- cut: the beginning of a model
- as_written: the model that others' runtimes run
- graph: from a simplified model to an operator graph
- operators: what each ONNX operator is called there, with windows and on canonical
"""
