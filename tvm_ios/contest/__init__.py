"""Contests: programs are verified and timed in turn; one is kept that is right and never slower."""
