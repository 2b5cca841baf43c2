"""A connection to a server of TVM's RPC, with our executor loaded there; every call has a limit."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from runtime_ext.fleet.time_limit import LateError, within
from runtime_ext.fleet.tracker import Lent
from runtime_ext.native_library import INTERFACE, native_library_path
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.measuring.timing_device import UntimedError

T = TypeVar("T")

#: Time limit, in seconds, of calls that take next to no time.
_ANSWER_SECONDS = 10.0
#: Bytes a second that the slowest network carries.
SLOWEST_NETWORK = 1e6
#: The function by which a server of ``tvm-ios server`` tells where its executor is.
PRELOADED = "tvm_ios.server.library"


class LostError(Exception):
    """A machine that does not answer (any more); the message does not name it."""


class TrialError(UntimedError):
    """A program that a machine could not time though it answers."""


class Connection:
    """A connection to a fresh process of a server, named by its ``address``.

    It is of no use any more after a :class:`LostError`. The constructor raises LostError if the
    server does not answer, and UserError if it cannot load the executor.
    """

    def __init__(self, lent: Lent) -> None:
        from tvm import rpc

        self.address = str(lent.address)
        self._session: Any = None
        self._functions: dict[str, Any] = {}
        #: Remote objects, held because their destructors would wait for a server that does not
        #: answer.
        self._held: list[Any] = []
        self._lost: str | None = None

        def connect() -> Any:
            # A late connection stays with the thread that makes it.
            return rpc.connect(lent.address.host, lent.address.port, lent.key)

        self._session = self.call(_ANSWER_SECONDS, connect)
        self._library: Any = None
        self._load_executor()

    def hold(self, remote: T) -> T:
        """Keep a reference to a remote object until the machine is given back."""
        self._held.append(remote)
        return remote

    @property
    def cpu(self) -> Any:
        """The machine's CPU, as a TVM device."""
        return self._session.cpu(0)

    def close(self) -> None:
        """Give the server back, if it still answers."""
        try:
            # Go on only if the server answers: dropping remote objects asks it to drop them too.
            self.ask("interface_version")
            # Otherwise remaining references to remote objects would keep the server reserved.
            self.call(_ANSWER_SECONDS, lambda: self._session.get_function("CloseRPCConnection")())
        except (LostError, TrialError):
            return
        self._functions.clear()
        self._held.clear()
        self._library = self._session = None

    def _load_executor(self) -> None:
        """Load the executor's library on the server: its own, or ours after sending it."""
        path = self._preloaded()
        if path is None:
            path = f"tvm-ios-{_executor().digest}.so"
            self.send(path, _executor().content)
        try:
            self._library = self.load(path)
            version = self.ask("interface_version")
        except TrialError as error:
            raise UserError(
                f"the server {self.address} cannot load the executor ({error}): start it with "
                "`tvm-ios server`, which has its own"
            ) from error
        if version != INTERFACE:
            raise UserError(
                f"the server {self.address} has a tvm-ios whose interface is {version}, and here "
                f"it is {INTERFACE}: install the same version there"
            )

    def _preloaded(self) -> str | None:
        """Return the path of the server's own executor; None if ours has to be sent."""
        try:
            data = json_object(str(self.remote(PRELOADED)))
            # Use its executor if it is the same as ours, or ours cannot be loaded on such a
            # machine.
            if data["sha256"] == _executor().digest or data["machine"] != platform.machine():
                return str(data["path"])
        except (AttributeError, JsonError, KeyError):
            pass
        return None

    def load(self, path: str, seconds: float | None = None) -> Any:
        """Load a file of the server as a TVM module.

        The default limit is that of quick answers.
        """
        return self.call(seconds or _ANSWER_SECONDS, lambda: self._session.load_module(path))

    def send(self, name: str, content: bytes) -> None:
        """Send a file's content to the server under a name."""
        limit = _ANSWER_SECONDS + len(content) / SLOWEST_NETWORK
        self.call(limit, lambda: self._session.upload(bytearray(content), name))

    def ask(self, name: str, *arguments: Any, seconds: float | None = None) -> Any:
        """Call a function of the executor's library on the server, and return its result."""

        def call() -> Any:
            if name not in self._functions:
                self._functions[name] = self._library[name]
            return self._functions[name](*arguments)

        return self.call(seconds or _ANSWER_SECONDS, call)

    def remote(self, name: str, *arguments: Any) -> Any:
        """Call a global function of the server, and return its result.

        Raise AttributeError if the server has no such function.
        """

        def call() -> Any:
            if name not in self._functions:
                self._functions[name] = self._session.get_function(name)
            return self._functions[name](*arguments)

        return self.call(_ANSWER_SECONDS, call)

    def call(self, seconds: float, call: Callable[[], T]) -> T:
        """Run a call that asks the machine, within a time limit, and return its result.

        Raise LostError if it takes longer or the connection ends, TrialError if it fails while
        the machine still answers.
        """
        if self._lost is not None:
            raise LostError(self._lost)
        try:
            return within(seconds, call)
        except LateError as error:
            self._lost = str(error)
            raise LostError(self._lost) from error
        except AttributeError:
            raise
        except Exception as error:
            # If the server still answers, it was the program that failed.
            if self._answers():
                raise TrialError(_reason(error)) from error
            self._lost = f"the connection ended ({_reason(error)})"
            raise LostError(self._lost) from error

    def _answers(self) -> bool:
        session = self._session
        if session is None:
            return False
        try:
            within(_ANSWER_SECONDS, lambda: session.get_function("tvm.rpc.server.workpath"))
        except Exception:
            return False
        return True


@dataclass(frozen=True)
class _Executor:
    content: bytes
    digest: str


@cache
def _executor() -> _Executor:
    """Read this machine's executor library."""
    content = native_library_path().read_bytes()
    return _Executor(content, hashlib.sha256(content).hexdigest())


def _reason(error: BaseException) -> str:
    """Return the message of an error that came over RPC, without the remote stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("RPCError", "File ", "Stack", "["))]
    return (told or lines or [type(error).__name__])[-1]
