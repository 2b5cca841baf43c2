"""Find the limits of a program's speed from its launches and their times.

- tasks: the tasks of a program, and the data dependences between them
- timeline: the time of a run by category; intervals: sets of instants
- bounds: lower bounds of each block; ideal: lower bounds for any schedule of given kernels
- memory_traffic: bytes that come from memory; hot_units: kernels with most of the time
- one_after_another: the same kernels without a schedule
- waits: waits between lanes and their costs; arena_use: bytes in use over a run
- chrome_trace: runs for Perfetto
- advice: how to make a block faster, in a sentence
"""
