"""A client of TVM's RPC tracker whose requests all have a time limit."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.errors import UserError

#: Seconds within which a tracker must answer: it only looks things up.
_ANSWER_SECONDS = 10.0
#: The default port of ``python -m tvm.exec.rpc_tracker``.
_PORT = 9190


class TrackerError(UserError):
    """A tracker that does not answer properly, or does not have what it is asked for."""


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port on which a tracker or a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @staticmethod
    def parse(text: str) -> Address:
        """Parse ``HOST:PORT``; raise TrackerError if the text is not of this form."""
        host, _, port = text.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise TrackerError(f"{text!r} is no address: give HOST:PORT, such as 127.0.0.1:{_PORT}")
        return Address(host.removeprefix("[").removesuffix("]"), int(port))


def tracker_of_environment() -> Address | None:
    """Return the tracker named by ``TVM_TRACKER_HOST`` and ``TVM_TRACKER_PORT``, None if unset.

    Raise TrackerError if they are no address.
    """
    host = os.environ.get("TVM_TRACKER_HOST")
    return Address.parse(f"{host}:{os.environ.get('TVM_TRACKER_PORT', _PORT)}") if host else None


@dataclass(frozen=True, slots=True)
class Listed:
    """The number of servers of a key that a tracker knows, and of those that are free."""

    servers: int
    free: int


@dataclass(frozen=True, slots=True)
class Lent:
    """A server that is reserved for this client until somebody connects to it with the key."""

    address: Address
    key: str


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker; each request opens its own connection, so that none is left waiting."""

    address: Address

    def listed(self) -> Mapping[str, Listed]:
        """Return the keys that the tracker knows; raise TrackerError if it does not answer."""
        from tvm.rpc.base import TrackerCode

        answer = self._ask([TrackerCode.SUMMARY])
        try:
            keys = [str(server["key"]).partition(":")[2] for server in answer["server_info"]]
            queues = answer["queue_info"]
            return {
                key: Listed(keys.count(key), int(queues.get(key, {}).get("free", 0)))
                for key in sorted({*keys, *queues})
                if key in keys
            }
        except (KeyError, TypeError, ValueError) as error:
            raise self._no_tracker(f"its summary is {str(answer)[:60]}") from error

    def lend(self, key: str) -> Lent | None:
        """Reserve a free server of a key; return None if there is none.

        Raise TrackerError if the tracker does not answer.
        """
        from tvm.rpc.base import TrackerCode

        listed = self.listed().get(key)
        if listed is None or not listed.free:
            return None
        try:
            # Another client may take the server first; the tracker then makes us wait for a free
            # one.
            answer = self._ask([TrackerCode.REQUEST, key, "", 1])
            host, port, matching = answer
            return Lent(Address(str(host), int(port)), str(matching))
        except TimeoutError:
            return None
        except (TypeError, ValueError) as error:
            raise self._no_tracker("it lends no servers") from error

    def _ask(self, question: list[Any]) -> Any:
        from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode, recvall, recvjson, sendjson

        address = (self.address.host, self.address.port)
        try:
            with socket.create_connection(address, _ANSWER_SECONDS) as connection:
                connection.sendall(struct.pack("<i", RPC_TRACKER_MAGIC))
                if struct.unpack("<i", recvall(connection, 4))[0] != RPC_TRACKER_MAGIC:
                    raise self._no_tracker("it does not speak as one")
                sendjson(connection, question)
                status, value = recvjson(connection)
        except TimeoutError as error:
            if question[0] == TrackerCode.REQUEST:
                raise
            raise self._no_tracker(f"no answer within {_ANSWER_SECONDS:.0f} s") from error
        except (OSError, TypeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise self._no_tracker(str(reason)) from error
        if status != TrackerCode.SUCCESS:
            raise self._no_tracker(f"its answer is {str(value)[:60]}")
        return value

    def _no_tracker(self, reason: str) -> TrackerError:
        return TrackerError(
            f"there is no tracker of TVM at {self.address} ({reason}): start one with `python -m "
            f"tvm.exec.rpc_tracker --host {self.address.host} --port {self.address.port} "
            f"--port-end {self.address.port + 1}`"
        )
