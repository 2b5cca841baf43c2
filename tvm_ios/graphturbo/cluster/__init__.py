"""A simulated cluster of cores that runs GraphTurbo's instances (sections 3.4 to 4.3)."""
