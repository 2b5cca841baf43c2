"""What limits the speed of a program, found from its launches and their times alone.

- tasks: the tasks of a program, and the data dependences between them
- timeline: where the time of a run went; intervals: sets of instants
- bounds: lower bounds of each block; ideal: lower bounds for any schedule of given kernels
- memory_traffic: which bytes come from memory; hot_units: which code takes most of the time
- one_after_another: the same kernels without a schedule
- waits: which launch let another lane go on; arena_use: bytes in use over a run
- chrome_trace: runs for Perfetto
- advice: what would help, in a sentence
"""
