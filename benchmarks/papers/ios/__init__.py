"""IOS: the rows of the paper of MLSys 2021 and of the thesis that repeats it.

- rows: which function makes which
- networks: what the networks are called here
- counts: sizes of searches and networks
- background: figures that motivate and explain
- latencies: schedules on described devices, by policy, pruning, block and batch
- specialised: schedules under other conditions; utilisation: arithmetic and warps
- randwire_stage.json: the wiring that was published of one random stage
"""
