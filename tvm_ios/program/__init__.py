"""Programs: lanes of launches and waits, how schedules become them, and where buffers lie.

- program: the data, of which program_json makes files; regions: which buffers overlap
- compiled_unit: what lowering knows of a unit's code
- constant_transform: how constants are packed for kernels; winograd: the matrices of one step;
  bfloat16: the rounding of another
- lower: from a schedule and units' code to a program, on program_builder, lane_writer and lanes
- placed: units whose rTasks a placement puts on lanes
- joins: where tensors lie that are joined to others, so that nothing is copied
- happens_before: which launches are ordered, and whether a program is free of races
- one_lane: a program's launches on a single lane, for a worker that has one CPU to itself
- memory_plan: where buffers lie in one arena; arena/ makes and checks such plans
- persistent: co-scheduled stages as one kernel, on persistent_lowering
- step_table: what such a kernel reads
"""
