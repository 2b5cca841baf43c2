"""Lets these tests use the generators of random units."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
