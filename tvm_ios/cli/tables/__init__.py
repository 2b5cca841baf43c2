"""Results of commands as tables, and some as JSON.

- result: of optimising a model; deployed: entries of a deployment; swept: rows of a sweep
- run: outputs and times of an executable; benched: our programs beside peers
- fleet_report: machines of a fleet that were left out or lost
- scheduled: a schedule; given: one of a file beside it; front: the front of latency and memory
- sub_graphs: the coarse sub-graphs of a model
"""
