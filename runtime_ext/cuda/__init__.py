"""NVIDIA GPUs: the compiler of units, programs on streams, and a GPU as a device."""
