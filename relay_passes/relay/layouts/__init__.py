"""The layouts of Relay's kernels, chosen for all units of a schedule together.

- ``choice``: the choice for a target, and the units in the chosen layouts.
- ``whole``, ``cut``: units put together as one function, and cut again out of it.
- ``transforms``: layout transforms, and tensors between units.
- ``channel_blocks``, ``blocked_convolutions``: the channel blocks of all convolutions together,
  and the blockings of a single one.
"""
