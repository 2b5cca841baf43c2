"""Deployments: programs of one model for several shapes, machines and numbers of lanes.

``files.py``
    The layout of the folder, and the files that entries share.
``adding.py``
    Add a program, by renames, with the registry last.
``pruning.py``
    Remove programs, and files that no program needs.
``writer.py``
    Lock a folder for one writer at a time; remove the files of a killed writer.
``machine.py``
    Describe this machine or a named one, to choose the entries that it can run.
``choice.py``
    Ask the C++ library which entry a machine runs, and why not another.
``deployment.py``
    A loaded deployment.
``session.py``
    Run the program that serves the given shapes.
"""
