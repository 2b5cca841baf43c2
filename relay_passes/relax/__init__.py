"""What the passes need to know of Relax: see :mod:`relay_passes.dialect`."""
