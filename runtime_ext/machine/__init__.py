"""Facts about this machine: its processor, caches, memory and instructions.

``cpu_features.py``
    The instructions that a target's code uses, and those that this machine has.
``hardware.py``
    This machine's processor and memory, as the system describes them.
``this_machine.py``
    This machine's number of lanes, and the target to compile for.
"""
