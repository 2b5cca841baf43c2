"""Running programs: executors, sessions, and executables in files."""
