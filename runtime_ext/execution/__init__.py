"""Running programs: executors, sessions, and executables in files.

- executor: what an executor is; native_executor, reference: those for CPUs
- buffers, host_memory: memory of programs; poison: what finds reads of the wrong memory
- session: a program with its buffers, on session_start; tailed_session: of a model whose end runs
  after the program; session_pool: many requests at once, each on a session of a worker;
  request_load: so many requests always in flight
- ports: inputs and outputs by the names that users know, and which of them are states
- model_program: from a schedule and units' code to a program with its weights
- built_model: what was built, to run here or save; first_wrong_unit: where it goes wrong
- package: sealed folders and tars; executable: programs in them, of program_files and kernel_files;
  runtime_module: as TVM's modules
- foreign_build: other runtimes' builds in packages; bound_model: how such models are run
"""
