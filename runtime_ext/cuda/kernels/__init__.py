"""CUDA kernels written in TIR, and their translation to CUDA C++."""
