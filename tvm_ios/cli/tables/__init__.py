"""What commands found, as tables for people and JSON for programs.

- optimized: what optimising a model came to; deployed: several programs of it; swept: a sweep
- served: ways to serve many requests
- benched: our programs beside peers
- on_device: what a timing device said of a model's programs; fleet_report: what a fleet did
- scheduled: a schedule; given: one of a file beside it; front: the front of latency and memory
- sub_graphs: the coarse sub-graphs of a model
"""
