"""Contests: programs are verified and timed in turn; one is kept that is right and never slower.

``contest.py``
    The contest: verify programs, time them, confirm the fastest in fresh processes, decide.
``outputs.py``
    Compare outputs of programs: errors, and differences that are more than rounding.
``pairs.py``
    The ratio of two runners whose runs were taken in pairs, with its 95 % interval.
``rounds.py``
    Runs of several runners in turn, each when the process is quiet.
``rules.py``
    The number of rounds and the seconds of each kind of contest.
``tolerance.py``
    The largest differences between outputs that count as rounding.
``verdict.py``
    The results of policies, and which one is kept.
"""
