"""Costs by measuring: stages are lowered, timed on a device, and remembered in a log.

``device.py``
    What differs between devices when programs are timed; the rest of a measured search is equal.
``timing_device.py``
    A device that times programs, which another package adds.
``launch_graph.py``, ``launch_files.py``
    What such a device times: launches that wait for each other; and that as files.
``measured_units.py``, ``chosen_forms.py``
    What is measured, and with what; units' code, of several forms the fastest.
``chosen_chains.py``
    Which units of a schedule are chains.
``measurer.py``
    Measurements, as many at once as a device takes, and their log.
``stage_timer.py``, ``rkernel_profile.py``
    Time stages, and what rTasks take.
``stage_fuser.py``
    What makes one kernel of a co-scheduled stage where lanes cannot share one, as on a GPU.
``measured_costs.py``, ``measured_rtasks.py``
    Costs by a device or by its log; of rTasks.
``tuning.py``
    What tuning a model's kernels takes and gives.
"""
