"""From TIR to machine code of NVIDIA GPUs, and what is known of a compiled kernel."""
