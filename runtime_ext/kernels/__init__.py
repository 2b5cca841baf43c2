"""Parts that kernels of all devices share: specs as plain data, and helpers that write TIR.

Nothing here knows a unit or a device's instructions.
"""
