"""Operator orders with a small peak memory.

- buffers: which tensors share memory; footprint: the bytes that an order takes
- problem: what schedulers see, on precedence; state_graph: bytes that running one node changes
- fused_graph: nodes that are sequences of operators
- orders: reverse post-order, and the result type of every scheduler
- schedulers: their registry, of exact/ and published/; options: their options
- operators: the graph that is ordered; arena: the offsets that follow from an order
- comparison: schedulers side by side; fitting: whether memory fits into a budget
- stage_order: the stages of a schedule as operators
"""
