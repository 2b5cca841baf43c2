"""Co-scheduled stages as one CUDA kernel (Rammer, section 4.1)."""
