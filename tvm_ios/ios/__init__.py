"""IOS: the fastest stages of a graph of units, block by block (MLSys 2021).

- dynamic_program: Algorithm 1, on ending_space, endings and pieces (states and their endings)
- strategies: the stages that units can become; merge_candidates: sets of units to merge
- block: a block by itself; twin_stages: its stages that share a key
- network: all blocks by given costs; lazy: by measuring only stages that may matter, on block_costs
- stage_memory: bytes that stages need; priced_block, memory_front: latency against memory
- promising: co-scheduled stages that bundles compile ahead
- counts: the size of a search; statistics: figures of a finished search
"""
