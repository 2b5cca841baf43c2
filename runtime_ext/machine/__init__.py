"""What this machine is and can do: CPUs, caches, instructions, measured peaks."""
