"""From TIR to machine code of NVIDIA GPUs, and what is known of a compiled kernel.

``cubin_cache.py``
    Machine code of fused kernels, compiled once for all processes that share a folder.
``kernel.py``
    What is known of a compiled CUDA kernel, apart from its machine code.
``launchable.py``
    What launching a CUDA kernel takes, and files of such kernels.
``nvrtc.py``
    Compile CUDA C++ to the machine code of an architecture: by NVRTC, or else nvcc; needs no
    GPU.
``packed_kernels.py``
    The kernels of a workload as a file of a cache: a line of JSON, then the cubins.
``prelude.py``
    What our CUDA C++ begins with, in the place of headers.
``source.py``
    From the TIR of a kernel to CUDA C++, its launch and its parameters; needs no GPU.
``target_gpu.py``
    Which GPU kernels for an architecture are cut for.
"""
