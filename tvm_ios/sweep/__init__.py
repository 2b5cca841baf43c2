"""Sweeps: models x batches x shapes x devices x policies x pruning, as tasks that are done once."""
