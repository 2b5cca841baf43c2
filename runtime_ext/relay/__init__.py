"""Relay's kernels in our programs, TVM's own build of a Relay module, and AutoTVM."""
