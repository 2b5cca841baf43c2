"""``tvm-ios server``: make this machine one of a fleet."""

from __future__ import annotations

import sys
import time
from typing import Annotated

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Debug, Verbose, reports_errors
from tvm_ios.cli.options.fleet import Key, Tracker, fleet_address

PAGE = HelpPage(
    (
        "tvm-ios server --tracker 127.0.0.1:9190 --key epyc",
        "tvm-ios server --tracker 10.0.0.1:9190 --key board --host 10.0.0.7",
    ),
    "`tvm-ios schedule MODEL --tracker HOST:PORT --key KEY` measures on all servers of the key.",
)

#: Seconds before a server that ended is started again.
_PAUSE = 1.0


@reports_errors
def server(
    tracker: Tracker = None,
    key: Key = None,
    host: Annotated[str, panels.fleet(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, panels.fleet(min=1, max=65535, help="The port to listen on, or the next free one.")
    ] = 9090,
    seen_as: Annotated[
        str | None,
        panels.fleet(
            "--custom-addr", metavar="HOST", help="Where clients reach it, if not at --host."
        ),
    ] = None,
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Let others measure on this machine, by TVM's RPC server and a tracker.

    RPC has no authentication: whoever reaches the server runs any code on this machine. It listens
    on this machine alone unless --host names an address of a network that you trust.
    """
    from runtime_ext.fleet.server import ServerOptions, start_server

    address, name = fleet_address(tracker, key)
    options = ServerOptions(address, name, host, port, seen_as)
    while True:
        running = start_server(options)
        print(
            f"tvm-ios: measuring for the key {name!r} of the tracker {address}, on "
            f"{host}:{running.port}",
            file=sys.stderr,
            flush=True,
        )
        try:
            running.proc.join()
        finally:
            running.terminate()
        print("tvm-ios: the server was ended by what it ran; it starts again", file=sys.stderr)
        time.sleep(_PAUSE)
