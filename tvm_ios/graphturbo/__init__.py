"""GraphTurbo: coarse sub-graphs, split into instances that fit fast memory (OSDI 2023)."""
