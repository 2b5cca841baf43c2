"""A machine behind a server of TVM's RPC: libraries are sent to it once, programs timed on it."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from runtime_ext.cpu.device import Sampling
from runtime_ext.execution.executable import MODULE_FILE
from runtime_ext.fleet.kernel_library import KernelLibrary
from runtime_ext.fleet.machine_kind import MachineKind
from runtime_ext.fleet.time_limit import LateError, within
from runtime_ext.fleet.tracker import Lent
from runtime_ext.native_library import INTERFACE, native_library_path
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.measuring.timing_device import UntimedError

T = TypeVar("T")

#: Seconds for what takes next to none, and for what a program's first run may take beside that.
_ANSWER_SECONDS, _FIRST_RUN_SECONDS = 10.0, 20.0
#: Bytes a second that the slowest network carries.
_SLOWEST_NETWORK = 1e6
#: By how much timing may exceed what the first run lets expect, and seconds on top of it.
_MARGIN, _PATIENCE = 10.0, 5.0
#: Bytes of kernels that stay on a machine; the ones longest not used go first.
_KEPT_BYTES = 256 << 20
#: By what name a server that was started by ``tvm-ios server`` says what it has.
PRELOADED = "tvm_ios.server.library"


class LostError(Exception):
    """A machine that does not answer, or no longer; the sentence does not name it."""


class TrialError(UntimedError):
    """A program that a machine could not time though it answers."""


@dataclass(frozen=True)
class Trial:
    """A program that is timed elsewhere.

    Attributes
    ----------
    program
        As ``program.json`` has it.
    libraries
        The library of each of its kernels.
    """

    program: dict[str, Any]
    libraries: tuple[KernelLibrary, ...]


class Machine:
    """A connection to a server, for one caller at a time.

    Every call has a time limit. After a :class:`LostError` a machine is of no use any more.

    Parameters
    ----------
    lent
        A server that waits for us.

    Attributes
    ----------
    address
        Where it is, which names it.
    kind
        What it is.

    Raises
    ------
    LostError
        If it does not answer.
    UserError
        If it cannot load the executor, or kernels are not made for such machines.
    """

    def __init__(self, lent: Lent) -> None:
        self.connect(lent)

    def connect(self, lent: Lent) -> None:
        """Connect, after :meth:`close` anew: each connection is a fresh process there.

        Raises
        ------
        LostError, UserError
            As the constructor.
        """
        from tvm import rpc

        self.address = str(lent.address)
        self._session: Any = None
        self._functions: dict[str, Any] = {}
        #: Paths of the libraries that it has, by their names; the last used one is the last.
        self._sent: OrderedDict[str, tuple[str, int]] = OrderedDict()
        #: Paths of the files of executables, by their content, and of their folders.
        self._files: dict[str, str] = {}
        #: Destructors of remote objects would wait for a server that does not answer.
        self._held: list[Any] = []
        self._lost: str | None = None

        def connect() -> Any:
            # Kept by this thread if it is late.
            return rpc.connect(lent.address.host, lent.address.port, lent.key)

        self._session = self.call(_ANSWER_SECONDS, connect)
        self._library: Any = None
        self._load_executor()
        self.kind = MachineKind.of(self._ask("machine_facts"))

    def time(self, trial: Trial, sampling: Sampling) -> list[float]:
        """Samples of a program's seconds.

        Raises
        ------
        LostError
            If the machine does not answer in time.
        TrialError
            If the program fails there.
        """

        with self._opened(trial) as opened:
            return self._sampled(opened, sampling)

    def time_in_turn(
        self, trials: Sequence[Trial], sampling: Sampling, rounds: int
    ) -> list[list[float] | TrialError]:
        """Samples of each of some programs, which take turns, or why there are none.

        Raises
        ------
        LostError
            If the machine does not answer in time.
        """
        opened: dict[int, _Opened] = {}
        samples: dict[int, list[float]] = {}
        failed: dict[int, TrialError] = {}
        with ExitStack() as stack:
            for place, trial in enumerate(trials):
                try:
                    opened[place] = stack.enter_context(self._opened(trial))
                except TrialError as error:
                    failed[place] = error
            for _ in range(rounds):
                for place in [each for each in opened if each not in failed]:
                    try:
                        samples.setdefault(place, []).extend(self._sampled(opened[place], sampling))
                    except TrialError as error:
                        failed[place] = error
        return [failed.get(place) or samples[place] for place in range(len(trials))]

    def profile(self, trial: Trial) -> list[list[float]]:
        """For each launch of a program of one lane its seconds, in several rounds.

        Raises
        ------
        LostError, TrialError
            As :meth:`time`.
        """

        with self._opened(trial) as opened:
            limit = _PATIENCE + _MARGIN * 20 * opened.seconds
            return json.loads(self._ask("profile_trial", opened.number, seconds=limit))

    def open_program(self, folder: Path) -> Any:
        """An executable as a module of TVM's runtime there; its files are sent once by content.

        Raises
        ------
        LostError, TrialError
            As :meth:`time`.
        UserError
            If the executor there is of an earlier version.
        """
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        program = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
        if program not in self._files:
            for name, digest in digests.items():
                if digest not in self._files:
                    self._send(digest, files[name])
                    self._files[digest] = str(self._remote("tvm.rpc.server.workpath", digest))
            path = str(self._remote("tvm.rpc.server.workpath", f"program-{program}"))
            paths = [self._files[digest] for digest in digests.values()]
            request = {"folder": path, "names": [*digests], "paths": paths}
            try:
                self._ask("gather_files", json.dumps(request))
            except AttributeError:
                raise UserError(
                    f"the executor that the server {self.address} has is older and times no whole "
                    "programs: install the same version of tvm-ios there and here"
                ) from None
            self._files[program] = path
        path = f"{self._files[program]}/{MODULE_FILE}"
        limit = _FIRST_RUN_SECONDS + sum(map(len, files.values())) / _SLOWEST_NETWORK
        return self.hold(self.call(limit, lambda: self._session.load_module(path)))

    def hold(self, remote: T) -> T:
        """Keep a remote object until the machine is given back."""
        self._held.append(remote)
        return remote

    @property
    def cpu(self) -> Any:
        """The machine's CPU, as TVM's device."""
        return self._session.cpu(0)

    def close(self) -> None:
        """Give the server back, if it still answers."""
        try:
            # Only then: what is dropped afterwards asks the server to drop it too.
            self._ask("interface_version")
            # Otherwise whatever still refers to a remote object would hold the server.
            self.call(_ANSWER_SECONDS, lambda: self._session.get_function("CloseRPCConnection")())
        except (LostError, TrialError):
            return
        self._functions.clear()
        self._held.clear()
        self._library = self._session = None

    @contextmanager
    def _opened(self, trial: Trial) -> Iterator[_Opened]:
        """A program that is ready there, and ran once."""
        paths = [self._path(library) for library in trial.libraries]
        request = json.dumps({"program": trial.program, "libraries": paths})
        limit = _FIRST_RUN_SECONDS + len(request) / _SLOWEST_NETWORK
        opened = json.loads(self._ask("open_trial", request, seconds=limit))
        number = opened["trial"]
        try:
            yield _Opened(number, opened["seconds"])
        except TrialError:
            self._ask("close_trial", number)
            raise
        self._ask("close_trial", number)

    def _sampled(self, opened: _Opened, sampling: Sampling) -> list[float]:
        expected = sampling.tries * sampling.samples
        expected *= max(sampling.sample_seconds, opened.seconds)
        limit = _PATIENCE + _MARGIN * (expected + opened.seconds)
        arguments = (opened.number, *asdict(sampling).values())
        return json.loads(self._ask("time_trial", *arguments, seconds=limit))

    def _path(self, library: KernelLibrary) -> str:
        """Where a library is there; it is sent if it is not there yet."""
        if library.name not in self._sent:
            self._send(library.name, library.content)
            name = library.name
            if not library.linked:
                # TVM's server links object files as it gives the library back.
                self._remote("tvm.rpc.server.download_linked_module", name)
                name += ".so"
            path = str(self._remote("tvm.rpc.server.workpath", name))
            self._sent[library.name] = (path, len(library.content))
            self._free_old()
        self._sent.move_to_end(library.name)
        return self._sent[library.name][0]

    def _free_old(self) -> None:
        # The last one is about to be used.
        old: list[str] = []
        while sum(size for _, size in self._sent.values()) > _KEPT_BYTES and len(self._sent) > 1:
            name, (path, _) = self._sent.popitem(last=False)
            old.append(path)
            self._remote("tvm.rpc.server.remove", name)
        if old:
            self._ask("free_libraries", json.dumps({"libraries": old}))

    def _load_executor(self) -> None:
        """Load the executor's library there: the server's own, or ours, sent to it."""
        path = self._preloaded()
        if path is None:
            path = f"tvm-ios-{_executor().digest}.so"
            self._send(path, _executor().content)
        try:
            self._library = self.call(_ANSWER_SECONDS, lambda: self._session.load_module(path))
            version = self._ask("interface_version")
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
        """The path of the executor that the server itself has; None where ours has to do."""
        try:
            data = json_object(str(self._remote(PRELOADED)))
            # The same loop measures everywhere, but for machines on which ours cannot be loaded.
            if data["sha256"] == _executor().digest or data["machine"] != platform.machine():
                return str(data["path"])
        except (AttributeError, JsonError, KeyError):
            pass
        return None

    def _send(self, name: str, content: bytes) -> None:
        limit = _ANSWER_SECONDS + len(content) / _SLOWEST_NETWORK
        self.call(limit, lambda: self._session.upload(bytearray(content), name))

    def _ask(self, name: str, *arguments: Any, seconds: float = _ANSWER_SECONDS) -> Any:
        """What a function of the executor's library answers."""

        def call() -> Any:
            if name not in self._functions:
                self._functions[name] = self._library[name]
            return self._functions[name](*arguments)

        return self.call(seconds, call)

    def _remote(self, name: str, *arguments: Any) -> Any:
        """What a function of the server answers; raises AttributeError if it has none."""

        def call() -> Any:
            if name not in self._functions:
                self._functions[name] = self._session.get_function(name)
            return self._functions[name](*arguments)

        return self.call(_ANSWER_SECONDS, call)

    def call(self, seconds: float, call: Callable[[], T]) -> T:
        """What a call gives that asks the machine.

        Raises
        ------
        LostError
            If it takes longer, or the connection ends.
        TrialError
            If it fails, though the machine answers.
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
            # Either the server answers, and it was the program that failed, or it does not.
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


@dataclass(frozen=True, slots=True)
class _Opened:
    """A program that is ready on a machine: its number there, and the seconds of its first run."""

    number: int
    seconds: float


@dataclass(frozen=True)
class _Executor:
    content: bytes
    digest: str


@cache
def _executor() -> _Executor:
    """This machine's executor, as a file."""
    content = native_library_path().read_bytes()
    return _Executor(content, hashlib.sha256(content).hexdigest())


def _reason(error: BaseException) -> str:
    """The sentence in an error that came over RPC, which has the other side's stack in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("RPCError", "File ", "Stack", "["))]
    return (told or lines or [type(error).__name__])[-1]
