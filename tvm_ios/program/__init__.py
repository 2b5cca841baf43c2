"""Programs: lanes of launches and waits, their lowering from schedules, and their memory plans.

- program: the data, written to files by program_json; regions: overlaps of buffers
- compiled_unit: the code of a unit and its constants, as lowering reads them
- constant_transform: packing of constants for kernels; winograd: the matrices of one step;
  bfloat16: the rounding of another
- lower: from a schedule and units' code to a program, on program_builder, lane_writer and lanes
- placed: units whose rTasks a placement puts on lanes
- joins: tensors written directly into a concatenation's result, so that nothing is copied
- happens_before: the order of launches, and the check that a program is free of races
- one_lane: a program's launches on a single lane, for a worker that has one CPU to itself
- memory_plan: offsets of buffers in one arena; arena/ makes and checks such plans
- persistent: co-scheduled stages as one kernel, on persistent_lowering
- step_table: the tables that such a kernel reads
"""
