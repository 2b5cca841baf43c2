"""GraphTurbo (OSDI 2023).

- rows: which function makes which
- hierarchies: the configurations of accelerators
- structure: what ResNet-50 is made of
"""
