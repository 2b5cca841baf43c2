"""Prints the tables and figures of the publications, ours beside theirs.

Each value says how it was had: counted, simulated on a described device, measured here, or not
possible, and why. What was computed is kept: a command that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.papers.catalogue import items_named
from benchmarks.papers.document import write_document
from benchmarks.papers.reproduce import reproduce
from benchmarks.papers.tables import print_catalogue, print_reproduced
from runtime_ext.machine.this_machine import available_lanes, cache_folder
from tvm_ios.cli.frame.output import progress_bars
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import require_writable


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="texts, tables, figures [all]")
    parser.add_argument("--list", action="store_true", help="only list the tables and figures")
    parser.add_argument("--anew", action="store_true", help="compute again what was computed")
    parser.add_argument("--workers", type=int, default=available_lanes(), help="how many at once")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write rows as JSON here")
    options = parser.parse_args()
    items = items_named(options.names)
    if options.list:
        print_catalogue(items)
        return 0
    if options.output is not None:
        require_writable(options.output)
    with progress_bars() as update:
        reproduced = reproduce(
            items,
            cache_folder() / "papers",
            options.workers,
            options.anew,
            update,
            lambda sentence: update.tell(f"{parser.prog}: {sentence}"),
        )
    if options.output is not None:
        write_document(reproduced, options.output)
    print_reproduced(reproduced)
    return any(one.error is not None for one in reproduced)


if __name__ == "__main__":
    try:
        sys.exit(_main())
    except UserError as error:
        sys.exit(f"python -m benchmarks.papers: {error}")
