"""Lets these tests use the generators that the tests of ``tvm_ios`` use too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
