"""Deployments: the registry of a folder of programs of one model.

- entry: a program of a deployment, as its registry describes it
- registry: all entries, in ``deployment.json``
"""
