"""Deployments: many programs of one model in a folder.

``combinations.py``
    The combinations of shapes, machine and lanes that programs are made for.
``recipes.py``
    Read logs, schedules and results of other machines as recipes of programs.
``entries.py``
    Save a program as an entry, and find out whether it may be given fewer rows.
``deployed.py``
    Make a deployment of a model.
"""
