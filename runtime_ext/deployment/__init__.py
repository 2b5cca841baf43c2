"""Deployments: programs of one model for several shapes, machines and numbers of lanes.

``files.py``
    What lies where in the folder, and which files entries share.
``adding.py``
    Add a program, by renames, with the registry last.
``pruning.py``
    Remove programs, and files that nobody needs.
``writer.py``
    The only writer of a folder at a time; what a killed one left is swept.
``machine.py``
    What this machine, or one that is described, can take.
``deployment.py``
    A deployment that was loaded.
``session.py``
    Runs whichever program serves the shapes that are given.
"""
