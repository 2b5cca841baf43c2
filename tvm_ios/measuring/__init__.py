"""Costs by measuring: stages are lowered, timed on a device, and remembered in a log.

``device.py``
    The interfaces of a device that times programs, and of its kernels.
``timing_device.py``
    The interface of timing devices that other packages add.
``launch_graph.py``, ``launch_files.py``
    A program as a graph of launches, which such a device times; and its files.
``measured_units.py``
    The units that are measured, with their compiler, device and log.
``chosen_forms.py``
    The code of units; of several forms the fastest.
``chosen_chains.py``
    Choose the chains of a schedule.
``measurer.py``
    Take the measurements that the log lacks, as many at once as the device takes.
``stage_timer.py``, ``rkernel_profile.py``
    Time stages; profile the rTasks of rKernels.
``stage_fuser.py``
    The interface that makes one kernel of a co-scheduled stage on a GPU.
``measured_costs.py``, ``measured_rtasks.py``
    Costs by a device or by its log; costs of rTasks.
``tuning.py``
    Inputs and results of tuning a model's kernels.
"""
