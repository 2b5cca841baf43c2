"""IOS: the fastest stages of a graph of units, block by block (MLSys 2021).

- dynamic_program: Algorithm 1, on ending_space, endings and pieces (states and what may end them)
- strategies: the stages that units can become; merge_candidates: which units may be merged
- block: a block by itself; twin_stages: which of its stages share a key
- network: all blocks by given costs; lazy: by measuring what may matter, on block_costs
- stage_memory: bytes that stages need; priced_block, memory_front: latency against memory
- promising: which co-scheduled stages bundles compile ahead
- counts: how large a search is; statistics: what it counted
"""
