"""Never slower, never wrong: programs are verified, timed in turn, and one is kept.

``contest.py``
    The contest: verify programs, time them, confirm the fastest in fresh processes, decide.
``outputs.py``
    Whether two programs compute the same: errors of outputs, and what is more than rounding.
``pairs.py``
    The ratio of two runners whose runs were taken in pairs, with its 95 % interval.
``rounds.py``
    Runs of several runners in turn, each when the process is quiet.
``rules.py``
    How long runners run: all rule sets.
``tolerance.py``
    What difference between outputs is one of rounding: the rule.
``verdict.py``
    The results of policies, and which one is kept.
"""
