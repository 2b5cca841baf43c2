"""Relax modules in the form that scheduling reads.

- ``canonicalise``: the passes in order.
- ``casts``: casts to a known shape are removed; lowered modules are refused.
- ``fold_constants``, ``fold_batch_norm``: constant expressions are computed.
- ``fold_empty``: tensors without elements become constants.
- ``one_row``: 1-D convolutions and pools become 2-D ones on images of one row.
- ``raise_clip``, ``raise_extreme``, ``raise_gather``, ``raise_pad``: operators that importers
  write as several become one again.
- ``take_fields``: every field of an operator's tuple result is bound.
- ``wrap_indices``: no index leads beyond the data.
"""
