"""Memory of activations.

arena.py        the arena of every network against its lower bound
schedulers.py   the peak of every memory scheduler, and proofs
"""
