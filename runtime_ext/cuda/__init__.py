"""NVIDIA GPUs: the compiler of units, programs on streams, and a GPU as a device.

``kernels/`` generates kernels of units, ``persistent/`` fuses several into one,
``machine_code/`` compiles them, and ``nvidia/`` calls the driver and cuDNN.

``bound_calls.py``
    The launches of a program with their arguments, as the driver takes them.
``compiler.py``
    Compile units to CUDA kernels for a named architecture, on any machine.
``event_graph.py``
    The event graph of a program: the events each launch waits for, on streams (plain data).
``executor.py``
    The CUDA executor: a lane is a stream, and a run is one launch of a captured graph.
``gemm_space.py``
    The tile sizes of a contraction on a GPU, as points that tuning logs know.
``kernel_timer.py``
    Time tile sizes of one contraction on a GPU, side by side.
``launch_graphs.py``
    From a program and its kernels to the launch graph that timing devices take.
``measure.py``
    Seconds of programs on a GPU, by the GPU's own clock.
``plugged_device.py``
    A timing device of another package, used by measured searches and to run programs.
``stored_types.py``
    The type in which a program on a GPU stores the model's float32 tensors.
``timed_launches.py``
    Begin and end times of the launches of a run.
"""
