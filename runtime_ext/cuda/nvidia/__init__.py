"""The driver of NVIDIA GPUs, resources in their memory, and cuDNN.

``clocks.py``
    The state of a GPU beside its measurements: clocks, power, temperature, by ``nvidia-smi``.
``cudnn.py``
    cuDNN's own C library, version 9: found, its functions called so that errors raise, handles.
``cudnn_convolution.py``
    Convolutions by cuDNN, on the streams of an executor.
``driver.py``
    CUDA's driver API: calls that raise, and devices.
``memory.py``
    The buffers of a program on a GPU.
``resources.py``
    Resources of a process on a GPU: memory, streams, events and modules, each freed with its
    owner.
"""
