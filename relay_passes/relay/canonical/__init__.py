"""Relay modules in the form that scheduling reads.

- ``canonicalise``: the passes in order.
- ``fold_constants``, ``fold_batch_norm``: what is known is computed.
- ``inline_calls``: ``main`` calls operators alone.
- ``narrow_doubles``: doubles become half precision by way of single precision.
- ``wrap_indices``: no index leads beyond the data.
"""
