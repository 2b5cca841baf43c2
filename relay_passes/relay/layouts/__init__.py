"""The layouts of Relay's kernels, chosen for all units of a schedule together."""
