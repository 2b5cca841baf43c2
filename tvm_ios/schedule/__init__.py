"""Schedules as plain data.

- schedule: stages of units, and the rules that they keep; stage: one of them
- streams: stages of streams, and what these wait for
- placement: which rTasks of a co-scheduled stage run on which lane
- chains: units of a group that one code computes; chained_schedule: which may be, and a schedule
  with some of them; named_kernels: which rKernels units run
- rkernel: the ways to compute a unit in rTasks
- instance_plan: which units run as instances, and how
- stage_order: the order of stages where costs do not decide it; waves: stages that go wave by wave
- first_difference: what a schedule for another graph is told
- published: schedules of IOS's published implementation, for units of ours
"""
