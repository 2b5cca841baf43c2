"""Results of commands as tables, and some as JSON.

- result: of optimising a model; deployed: entries of a deployment; swept: rows of a sweep
- run: outputs and times of an executable; benched: our programs beside peers
- accelerator: an accelerator's plan; fleet_report: machines that were left out or lost
- scheduled: a schedule; given: a file's schedule beside it; front: latency against memory
- sub_graphs: the coarse sub-graphs of a model
"""
