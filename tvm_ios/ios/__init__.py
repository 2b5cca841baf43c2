"""IOS: the fastest stages of a graph of units, block by block (MLSys 2021)."""
