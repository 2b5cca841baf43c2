"""From TIR to machine code of NVIDIA GPUs, and descriptions of compiled kernels."""
