"""What the passes need to know of Relay: see :mod:`relay_passes.dialect`."""
