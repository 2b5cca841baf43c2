"""The operator graph, its units and blocks, and what can be told from a graph alone."""
