"""Deployments: what a folder of programs of one model says of each, and which one is taken.

- entry: a program of a deployment, as its registry describes it
- registry: all entries, in ``deployment.json``
- choice: which entry a machine takes for given shapes, and why not another
"""
