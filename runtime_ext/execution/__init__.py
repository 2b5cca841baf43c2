"""Running programs: executors, sessions, and executables in files.

- executor: the interfaces of executors and memories; native_executor, reference: executors for CPUs
- buffers, host_memory: memory of programs; poison: finds reads of memory that nothing has written
- model_session: a model over a memory and an executor; session: a program with its buffers, made by
  session_start; tailed_session: a session of a model
  whose end runs after the program; session_pool: many requests at once, each on a worker's session;
  request_load: keeps a fixed number of requests in flight
- ports: inputs and outputs by the names that users know, and which of them are states
- model_program: from a schedule and units' code to a program with its weights
- built_model: a compiled model, to run here or save; first_wrong_unit: finds where it goes wrong
- package: sealed folders and tars; executable: programs in packages, made of program_files and
  kernel_files; runtime_module: executables as TVM's modules
- foreign_build: other runtimes' builds in packages; bound_model: runs such models
"""
