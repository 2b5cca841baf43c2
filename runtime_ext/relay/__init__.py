"""Units of Relay: TVM's own kernels, run by our executors, and tuned by AutoTVM."""
