"""Lets these tests use the generators of programs that other tests have."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = map(str, (TESTS, TESTS / "arena", TESTS / "kernels", TESTS.parent))
