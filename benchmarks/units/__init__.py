"""Single units and pairs of them, and what launching them costs.

bfloat16.py           weights in bfloat16 beside float32
chains.py             pairs of units as one kernel beside the units apart; networks with and without
executor.py           what a step, a wait and a run cost
rkernels.py           the rKernels of contractions, with profiled times
single_operators.py   models of one operator each, most of them without a kernel of ours
tvm_units.py          each unit beside TVM's own kernel
winograd.py           Winograd's filtering beside direct convolution
"""
