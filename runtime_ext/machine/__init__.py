"""What this machine is: its processor, caches, memory and instructions.

``cpu_features.py``
    Which instructions a target's code uses, and which this machine has.
``hardware.py``
    This machine's processor and memory, as the system describes them.
``this_machine.py``
    This machine: how many lanes it has, and the target to compile for.
"""
