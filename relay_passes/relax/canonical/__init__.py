"""Relax modules in the form that scheduling reads.

- ``canonicalise``: the passes in order.
- ``casts``: what says a shape that is known is left out; lowered modules are refused.
- ``fold_constants``, ``fold_batch_norm``: what is known is computed.
- ``fold_empty``: what has no elements is a constant.
- ``one_row``: convolutions and pools along one axis are those of images of one row.
- ``raise_clip``, ``raise_extreme``, ``raise_gather``, ``raise_pad``: what importers spell in
  several is one operator.
- ``take_fields``: no tensor that an operator returns is left out.
- ``wrap_indices``: no index leads beyond the data.
"""
