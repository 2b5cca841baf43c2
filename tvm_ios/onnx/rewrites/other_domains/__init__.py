"""Rewrite operators of other domains, ONNX Runtime's own and machine learning's, with ONNX's.

- registry: the rewritten operators, and the models that hold some
- deferred: an operator that waits for the shapes before it
- fused: activations, products and convolutions with what follows them
- normalisations: layer norms of sums, and embeddings
- masked: attention from queries, keys, values and a mask
- attention: the operators of attention that project, mask and cache
- grouped: attention whose keys serve several queries, rotary embeddings
- integers: products of integers that become floats
- packed: weights of a few bits that stay packed
- recurrent: LSTMs whose inputs and states are quantised
- features: features scaled, imputed and encoded, as scikit-learn does
- linear: linear classifiers and regressors, and support vectors
"""
