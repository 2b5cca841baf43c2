"""Networks of cells that were searched, or wired at random."""
