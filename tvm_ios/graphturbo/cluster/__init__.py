"""A simulated cluster of cores that runs GraphTurbo's instances."""
