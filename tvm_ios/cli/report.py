"""``tvm-ios report``: an executable on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, console, print_json, reports_errors
from tvm_ios.cli.options.executables import program_at
from tvm_ios.cli.options.model import At, input_shapes
from tvm_ios.cli.options.search_options import DeviceName

PAGE = HelpPage(
    (
        "tvm-ios report out/ -o page.html",
        "tvm-ios report out/ --compare other/ -o both.html",
        "tvm-ios report squeezenet.bundle",
    ),
    "Open the page in a browser; `tvm-ios trace` writes the same runs for Perfetto.",
)


@reports_errors
def report(
    executable: Annotated[
        Path,
        typer.Argument(help="What `tvm-ios optimize -o` wrote, or a bundle that was run."),
    ],
    reporting: Reporting,
    output: Annotated[
        Path | None, panels.output("-o", "--output", help="The page.  [EXECUTABLE.html]")
    ] = None,
    compare: Annotated[
        Path | None, panels.running(help="Another executable or bundle, shown beside it.")
    ] = None,
    repeat: Annotated[
        int, panels.running(min=1, help="Runs to profile; the fastest one is shown.")
    ] = 40,
    device: DeviceName = None,
    at: At = None,
) -> None:
    """Show an executable, or what a bundle found, on a page of HTML.

    The page needs no network. It has the graph of units with their stages and groups; a run on its
    lanes, below a run of the same kernels one unit after another; what waited for what; the bytes
    in use; what bounds each block, and what would help; a table of units; and what each policy came
    to. An executable runs on random inputs for it. Of a bundle it shows what was measured there, of
    a deployment the program that this machine takes for the smallest batch.
    """
    from tvm_ios.api.documents.page import page_document, require_page, write_page
    from tvm_ios.measuring.timing_device import open_timing_device

    output = output or Path(f"{executable.with_suffix('').name or 'report'}.html")
    require_page(output)
    opened = None if device is None else open_timing_device(device)
    paths = [executable] if compare is None else [executable, compare]
    shapes = input_shapes(at, "--at")
    documents = [page_document(program_at(path), repeat, opened, shapes) for path in paths]
    write_page(documents, output)
    size = output.stat().st_size
    if reporting.as_json:
        print_json({"page": str(output), "bytes": size})
    else:
        console().print(f"{escape(str(output))}: {size / 1e6:.2f} MB; open it in a browser")
