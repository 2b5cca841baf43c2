"""``python -m tests.refusal_table``: writes the page."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

from tests.refusal_table.page import PAGE, page_of
from tests.refusal_table.rows import SECTIONS
from tests.refusal_table.running import line_of, make_sound_files


def main() -> None:
    """Run every row, and write what the commands say."""
    # TVM reads this once, when its thread pool starts.
    os.environ.setdefault("TVM_NUM_THREADS", "2")
    with (
        tempfile.TemporaryDirectory(prefix="refusals-") as name,
        # What compilers and TVM print is of no interest here.
        contextlib.redirect_stdout(io.StringIO()),
    ):
        room = Path(name)
        os.environ["TVM_IOS_CACHE"] = f"{room}/cache"
        make_sound_files(room / "sound")
        lines = {
            section: [line_of(row, room / "sound", room / "folder") for row in rows]
            for section, rows in SECTIONS.items()
        }
    PAGE.write_text(page_of(lines))


if __name__ == "__main__":
    main()
