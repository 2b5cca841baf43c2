"""From TIR to machine code of NVIDIA GPUs, and descriptions of compiled kernels.

``cubin_cache.py``
    Machine code of fused kernels, compiled once for all processes that share a folder.
``kernel.py``
    The description of a compiled CUDA kernel, apart from its machine code.
``launchable.py``
    CUDA kernels ready to launch, and files of them.
``nvrtc.py``
    Compile CUDA C++ to the machine code of an architecture: by NVRTC, or else nvcc; needs no
    GPU.
``nvrtc_library.py``
    NVRTC, NVIDIA's compiler as a library: each version that is installed, called in C.
``packed_kernels.py``
    The kernels of a workload as a file of a cache: a line of JSON, then the cubins.
``prelude.py``
    The first lines of our CUDA C++, used instead of headers.
``source.py``
    From the TIR of a kernel to CUDA C++, its launch and its parameters; needs no GPU.
``target_gpu.py``
    The GPU of an architecture for which kernels' tile sizes are chosen.
"""
