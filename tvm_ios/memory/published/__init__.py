"""Memory schedulers from published papers.

- serenity: dynamic programming between cuts, on soft_budget
- identity_rewriting: SERENITY's change of graphs
- hmcos: on hierarchy, sequences and groups of operators
- fusion_ilp: on partition, integer_program and ilp, which solves it
"""
