"""Relay modules in the form that scheduling reads.

- ``canonicalise``: the passes in order.
- ``fold_constants``, ``fold_batch_norm``: constant expressions are computed.
- ``inline_calls``: functions that ``main`` calls are inlined.
- ``narrow_doubles``: float64 is cast to float16 by way of float32.
- ``wrap_indices``: no index leads beyond the data.
"""
