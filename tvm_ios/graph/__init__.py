"""The operator graph, its units and blocks, and what can be told from a graph alone.

- op_graph: the immutable graph that every scheduler reads; elements: its tensors and operators
- operators: the kinds that all importers agree on, and their floating-point operations
- fingerprint: the canonical hash of a graph
- unit_rule: what a unit is by default, with unit_prologues: what it takes before its convolution;
  unit_partition: operators on their way into units
- units: checks any rule and builds the graph of units
- blocks: where a graph is cut into blocks; down_sets: the states of a block
- components: parts of a graph that have nothing to do with each other
- equal_branches: which branches of a block are equal; branch_symmetry: states that are alike then
- topological: an order in which each node comes after those that it reads from
- merge_rule: which convolutions can be merged; merged_weights: what their common weight is
- input_shapes: the shapes of a model's inputs, declared and given, made numbers
"""
