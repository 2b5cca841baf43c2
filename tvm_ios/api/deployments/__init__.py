"""Deployments: many programs of one model in a folder.

``combinations.py``
    What the programs are made for.
``recipes.py``
    How programs are made for other machines, as these recorded it.
``entries.py``
    How a program becomes an entry, and whether it may be given fewer rows.
``deployed.py``
    From a model to a deployment.
"""
