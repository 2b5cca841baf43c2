"""From the Relax function of a unit to descriptions of its kernels, for any device."""
