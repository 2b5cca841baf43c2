"""Memory-aware scheduling for complex wired networks (2023).

- rows: which function makes which
- peaks: peak memory and seconds by scheduler
- programs: what fusion, pruning and partition do to the integer program
- structure: how far fusion goes, and where peaks are
"""
