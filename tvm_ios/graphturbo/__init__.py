"""GraphTurbo: coarse sub-graphs, split into instances that fit fast memory (OSDI 2023).

- box, access: the elements of its inputs that an operator needs for a box of an output
- layers, dimensions: the nodes that are grouped, and the axes that are split together
- footprint: the tensors, bytes and FLOPs of a part of a sub-graph
- split_info: ways to split a sub-graph (Algorithm 1); rows: operators that can be cut into rows
- grouping: growth of sub-graphs (Algorithm 2); worth: predicted gain of a split on a CPU
- instances, orders: the parts, their dependences, and the order that they run in (Algorithm 3)
- lanes: placement of instances on the lanes of a CPU
- memory_splits: splits that need less memory; instance_memory: the peak memory of a schedule
- policy: the choice and its schedule; planned: partitions in schedule files
- origins, unrolled_stages: the schedule over units of which every instance has its own
- cluster/: a simulated cluster of cores
"""
