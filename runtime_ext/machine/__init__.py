"""What this machine is: its processor, caches, memory and instructions.

``cpu_features.py``
    Which instructions a target's code uses, and which this machine has.
``hardware.py``
    What the system tells about this machine's processor and memory.
``this_machine.py``
    This machine: how many lanes it has, and the target to compile for.
"""
