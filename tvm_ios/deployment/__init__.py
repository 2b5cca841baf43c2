"""Deployments: the registry of a folder of programs of one model, and the choice of one of them.

- entry: a program of a deployment, as its registry describes it
- registry: all entries, in ``deployment.json``
- choice: which entry a machine runs for given shapes, and why not another
"""
