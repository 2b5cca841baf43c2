"""Memory-aware scheduling for complex wired networks (2023).

- rows: which function makes which
- peaks: peak memory by scheduler
- structure: how far fusion goes, and where peaks are
"""
