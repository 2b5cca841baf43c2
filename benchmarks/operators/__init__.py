"""Models that benchmarks measure, besides the zoo's.

single_operators.py    one operator each, most of them without a kernel of ours
"""
