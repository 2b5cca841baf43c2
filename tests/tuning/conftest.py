"""Lets these tests use what the tests of kernels and of the command line use too."""

import sys
from pathlib import Path

for folder in ("kernels", "cli"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
