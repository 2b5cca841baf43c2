"""TVM's server of RPC with this package's executor at hand, which clients need not send then."""

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

#: As many ports are tried as TVM's own server tries.
_PORTS = 110


@dataclass(frozen=True)
class ServerOptions:
    """What a server listens on, and where it registers.

    Attributes
    ----------
    tracker
        The tracker.
    key
        The kind of device, by which clients ask for it.
    host, port
        Where to listen; the next free port from this one on.
    seen_as
        The address by which clients reach this machine; by default the one that the tracker sees.
    """

    tracker: Address
    key: str
    host: str
    port: int
    seen_as: str | None = None


def start_server(options: ServerOptions) -> Any:
    """A running ``tvm.rpc.server.Server``; ``terminate`` ends it.

    Raises
    ------
    UserError
        If no port is free, or the address is not this machine's.
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
    """Tell clients of this process where the executor is; called in the server's own process."""
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
        # A kernel has ended a session's process: TVM's thread that listens ends with it, and the
        # rest of the server would look well for ever.
        os._exit(1)

    threading.excepthook = end
