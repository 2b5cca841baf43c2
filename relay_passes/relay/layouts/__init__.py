"""The layouts that Relay's kernels want, chosen for all units of a schedule together.

- ``choice``: what they are chosen for, and the units in them.
- ``whole``, ``cut``: units put together as one function, and cut again out of it.
- ``transforms``: what changes a layout, and how tensors cross between units.
- ``channel_blocks``, ``blocked_convolutions``: the blocks of channels of all convolutions
  together, and the ways to block one.
"""
