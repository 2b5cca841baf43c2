"""Operators of other domains, ONNX Runtime's own and machine learning's, in those of ONNX.

- registry: which operators there are, and the models that hold some
- deferred: an operator that waits for the shapes before it
- fused: activations, products and convolutions with what follows them
- normalisations: layer norms of sums, and embeddings
- masked: attention from queries, keys, values and a mask
- attention: the operators of attention that project, mask and remember
- grouped: attention whose keys serve several queries, rotations by position
- integers: products of integers that become floats
- packed: weights of a few bits that stay packed
- recurrent: LSTMs whose inputs and states are rounded
- features: numbers scaled, chosen, replaced and looked up, as scikit-learn does
- linear: linear classifiers and regressors, and support vectors
"""
