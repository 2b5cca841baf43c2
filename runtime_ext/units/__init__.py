"""Plan the kernels of a unit, a Relax function of a few operators, for any device."""
