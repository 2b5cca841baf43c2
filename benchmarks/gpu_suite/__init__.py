"""The parts of ``benchmarks/gpu.py``, which go with it to the GPU machine."""
