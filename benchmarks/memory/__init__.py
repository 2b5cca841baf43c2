"""Memory of activations.

arena.py        the arena of every network against its lower bound
hard_arenas.py  arenas that are hard to place, of known size
minimalloc.py   placing the hard arenas of MiniMalloc's authors, and harder ones
schedulers.py   the peak of every memory scheduler, and proofs
"""
