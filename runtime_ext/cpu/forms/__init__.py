"""Ways to compute units on a CPU beside the default kernels, a folder each."""
