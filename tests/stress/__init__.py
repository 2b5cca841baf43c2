"""The executor under load: ``python -m tests.stress`` (see ``--help``)."""

import sys
from pathlib import Path

# What tests share lies in their folder, which pytest knows and ``python -m`` does not.
sys.path.insert(0, str(Path(__file__).parents[1]))
