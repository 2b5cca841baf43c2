"""GraphTurbo (OSDI 2023).

- rows: which function makes which
- hierarchies: the configurations of accelerators
"""
