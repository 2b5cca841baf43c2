"""Co-scheduled stages as one CUDA kernel (Rammer, section 4.1).

``co_schedule.py``
    Co-scheduled stages on a GPU: one kernel each, and its code for lowering. Needs no TVM.
``estimated_rtasks.py``
    rTasks of compiled kernels whose times are estimates: for devices that time programs slowly.
``fused_kernel.py``
    Compile a co-scheduled stage to one kernel (Rammer, section 4.1). Needs no TVM.
``fused_source.py``
    CUDA C++ of kernels of several operators: a persistent one, and one without dependences.
``rtask.py``
    A kernel as a function that a thread block of another kernel calls for one of its rTasks.
``rtask_function.py``
    A kernel as a function of its rTasks: C++ and a few figures, without TVM.
``rtask_library.py``
    Kernels that can be put into another kernel: what fusing asks of whoever has them.
``rtask_times.py``
    How long the rTasks of CUDA kernels take: profiled, or estimated where nothing was measured.
``stage_fuser.py``
    What a measured search asks about co-scheduled stages on a GPU, where each is one kernel.
"""
