"""Schedules as plain data.

- schedule: stages of units, and the rules that they keep; stage: one of them
- streams: stages of streams, and the units that their units wait for
- placement: the lanes of the rTasks of co-scheduled stages
- chains: units of a group that one kernel computes together; chained_schedule: possible chains,
  and a schedule with some of them; named_kernels: the rKernels that units run
- rkernel: the ways to compute a unit in rTasks; computed_units: the units behind a program's names
- instance_plan: the units that run as instances, and how
- stage_order: the order of stages where costs do not decide it; waves: stages that go wave by wave
- first_difference: where the graph of a schedule differs from another
- published: import of schedules of IOS's published implementation
"""
