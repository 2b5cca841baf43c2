"""The passes' interface to Relay: see :mod:`relay_passes.dialect`.

``relax`` has modules of the same names for what both have.
"""
