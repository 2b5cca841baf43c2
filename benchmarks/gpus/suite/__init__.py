"""The parts of ``gpu.py``, which go with it to the GPU machine.

slices.py    what is measured: networks, batches, parts of each
prepare.py   makes the folder that is copied there
measure.py   runs slices, one after another, and goes on where an earlier run was ended
command.py   commands with a time limit, ended with all that they started
record.py    what has been measured, skipped and why
table.py     prints it
"""
