"""Every refusal of the command line, run for real: each row of one table is a test.

Those that are said at once are tests of the fast suite.
``python -m tests.refusal_table`` writes ``docs/refusals.md`` from the same rows.
"""
