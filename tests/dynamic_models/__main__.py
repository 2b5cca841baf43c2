"""``python -m tests.dynamic_models``: see the package."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.dynamic_models.running import PAGE, page

if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        PAGE.write_text(page(Path(folder)))
