"""GraphTurbo: coarse sub-graphs, split into instances that live in fast memory (OSDI 2023).

- box, access: which elements of its inputs an operator needs for a box of an output
- layers, dimensions: the nodes that are grouped, and the axes that are split together
- footprint: the tensors, bytes and FLOPs of a part of a sub-graph
- split_info: how a sub-graph can be split (Algorithm 1); rows: operators that can be cut into rows
- grouping: how sub-graphs grow (Algorithm 2); worth: which splits a CPU's caches reward
- instances, orders: the parts, their dependences, and the order that they run in (Algorithm 3)
- lanes: which lane of a CPU runs an instance
- memory_splits: splits that need less memory; instance_memory: the peak memory of a schedule
- policy: the choice and its schedule; planned: from a partition to a file and back
- origins, unrolled_stages: the schedule over units of which every instance has its own
- cluster/: a simulated cluster of cores
"""
