"""From the Relax function of a unit to kernels, each a function of a range of its tiles."""
