"""What kernels of all devices share: descriptions, expressions, and a vocabulary for TIR."""
