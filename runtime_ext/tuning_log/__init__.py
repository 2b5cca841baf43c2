"""Tuning logs: MetaSchedule databases of contractions and of TVM's functions.

``folder.py``
    The folder of a tuning log: a MetaSchedule database that survives kills and second writers.
``log.py``
    Tuned kernels of units in a MetaSchedule database.
``space.py``
    The design space of a contraction: the ways to cut it, which MetaSchedule traces note.
``use.py``
    How much of a tuning log is used.
``workload.py``
    A contraction as a MetaSchedule workload: blocks that say what is computed, and no more.
"""
