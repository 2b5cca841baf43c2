"""The passes' interface to Relax: see :mod:`relay_passes.dialect`.

``relay`` has modules of the same names for what both have.
"""
