"""A CPU: the compiler of units, the ways to cut contractions, the CPU as a device, its peak."""
