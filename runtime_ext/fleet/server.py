"""TVM's RPC server with this package's executor preloaded, so that clients need not send it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from runtime_ext.fleet.connection import PRELOADED
from runtime_ext.fleet.tracker import Address
from runtime_ext.native_library import load_native_library, native_library_path
from tvm_ios.errors import UserError

#: The number of ports that are tried, as by TVM's own server.
_PORTS = 110


@dataclass(frozen=True)
class ServerOptions:
    """Options of a server: where it listens, and where it registers."""

    #: The address of the tracker.
    tracker: Address
    #: The kind of device, by which clients ask for it.
    key: str
    #: Where to listen; the next free port from this one on.
    host: str
    port: int
    #: The address by which clients reach this machine; by default the one that the tracker sees.
    seen_as: str | None = None


def start_server(options: ServerOptions) -> Any:
    """Start a ``tvm.rpc.server.Server``, which ``terminate`` ends.

    Raise UserError if no port is free, or the address is not this machine's.
    """
    from tvm.rpc import server

    load_native_library()  # What is wrong with it should be said here.
    try:
        return server.Server(
            options.host,
            options.port,
            options.port + _PORTS,
            tracker_addr=(options.tracker.host, options.tracker.port),
            key=options.key,
            custom_addr=options.seen_as,
            silent=True,
            server_init_callback=preload,
        )
    except Exception as error:
        raise UserError(
            f"no server can listen on {options.host}, port {options.port} to "
            f"{options.port + _PORTS - 1}: {error}"
        ) from error


def preload() -> None:
    """Register a function that tells clients where the executor is, in the server's process."""
    content = native_library_path().read_bytes()
    description = json.dumps(
        {
            "path": str(native_library_path()),
            "sha256": hashlib.sha256(content).hexdigest(),
            "machine": platform.machine(),
        }
    )
    tvm_ffi.register_global_func(PRELOADED, lambda: description, override=True)

    def end(_: threading.ExceptHookArgs) -> None:
        # A kernel has ended a session's process, and with it TVM's listening thread: the rest of
        # the server would seem healthy for ever.
        os._exit(1)

    threading.excepthook = end
