"""Co-scheduled stages as one CUDA kernel (Rammer, section 4.1).

``co_schedule.py``
    Co-scheduled stages on a GPU: one kernel each, and its code for lowering. Needs no TVM.
``estimated_rtasks.py``
    rTasks of compiled kernels with estimated times, for devices that time programs slowly.
``fused_kernel.py``
    Compile a co-scheduled stage to one kernel (Rammer, section 4.1). Needs no TVM.
``fused_source.py``
    CUDA C++ of kernels of several operators: a persistent one, and one without dependences.
``rtask.py``
    A kernel as a function that a thread block of another kernel calls for one of its rTasks.
``rtask_function.py``
    A kernel as a function of its rTasks: C++ and resource figures, without TVM.
``rtask_library.py``
    The interface of a collection of kernels that can be fused into another kernel.
``rtask_times.py``
    Times of the rTasks of CUDA kernels: profiled, or estimated if nothing was measured.
``stage_fuser.py``
    Co-scheduled stages in measured searches on a GPU, where each becomes one kernel.
"""
