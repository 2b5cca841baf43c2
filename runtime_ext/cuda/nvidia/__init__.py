"""The driver of NVIDIA GPUs, resources in their memory, and cuDNN."""
