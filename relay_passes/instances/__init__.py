"""Instances of sub-graphs written into a module.

- ``apply``: a schedule with instances becomes one of an unrolled module.
- ``unroll``: ``main`` instance by instance; ``subgraph_functions``: ``main`` as calls of them.
- ``part``, ``merged_part``: operators, and merged units, on parts of their tensors.
- ``pieces``: the tensors between instances, cut and joined.
"""
