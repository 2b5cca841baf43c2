"""GraphTurbo: coarse sub-graphs, split into instances that live in fast memory (OSDI 2023)."""
