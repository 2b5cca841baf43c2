"""The order of operators with the smallest peak memory.

- buffers: which tensors share memory; footprint: the bytes that an order takes
- problem: what schedulers see, on precedence; state_graph: what running one more node changes
- fused_graph: nodes of several operators, replayed in their context
- orders: reverse post-order, and what every scheduler returns
- schedulers: their registry, of exact/ and published/; options: how they may be changed
- operators: the graph that is ordered; arena: the offsets that follow from an order
- comparison: schedulers side by side; fitting: whether memory fits into a budget
- stage_order: the stages of a schedule as operators
"""
