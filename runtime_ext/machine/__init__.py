"""Facts about this machine: its processor, caches, memory and instructions."""
