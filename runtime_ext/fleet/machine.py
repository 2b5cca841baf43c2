"""A machine behind a server of TVM's RPC, which times programs; libraries are sent to it once."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runtime_ext.cpu.device import Sampling
from runtime_ext.execution.packages.program_files import MODULE_FILE
from runtime_ext.fleet.connection import SLOWEST_NETWORK, Connection, TrialError
from runtime_ext.fleet.kernel_library import KernelLibrary
from runtime_ext.fleet.machine_kind import MachineKind
from runtime_ext.fleet.tracker import Lent
from tvm_ios.errors import UserError

#: Seconds that a program's first run may take, without sending its libraries.
_FIRST_RUN_SECONDS = 20.0
#: Timing may take this multiple of the time that the first run predicts, plus these seconds.
_MARGIN, _PATIENCE = 10.0, 5.0
#: Bytes of kernels that stay on a machine; the least recently used go first.
_KEPT_BYTES = 256 << 20


@dataclass(frozen=True)
class Trial:
    """A program (as in ``program.json``) to be timed elsewhere, and its kernels' libraries."""

    program: dict[str, Any]
    libraries: tuple[KernelLibrary, ...]


class Machine:
    """A machine behind a server, for one caller at a time.

    Every call has a time limit. A machine is of no use any more after a :class:`LostError`. The
    constructor raises LostError if the machine does not answer, and UserError if it cannot load
    the executor or no kernels can be made for such machines.
    """

    def __init__(self, lent: Lent) -> None:
        self.connect(lent)

    def connect(self, lent: Lent) -> None:
        """Connect, or connect anew after :meth:`close`: each connection is a fresh process there.

        Raises as the constructor.
        """
        self.connection = Connection(lent)
        self.address = self.connection.address
        #: Path and size of each library on the machine, by name; the last used one is the last.
        self._sent: OrderedDict[str, tuple[str, int]] = OrderedDict()
        #: Paths of executables' files, by their content, and of the executables' folders.
        self._files: dict[str, str] = {}
        self.kind = MachineKind.of(self.connection.ask("machine_facts"))

    def close(self) -> None:
        """Give the server back, if it still answers."""
        self.connection.close()

    def time(self, trial: Trial, sampling: Sampling) -> list[float]:
        """Return samples of a program's seconds.

        Raise LostError if the machine does not answer in time, TrialError if the program fails.
        """

        with self._opened(trial) as opened:
            return self._sampled(opened, sampling)

    def time_in_turn(
        self, trials: Sequence[Trial], sampling: Sampling, rounds: int
    ) -> list[list[float] | TrialError]:
        """Return samples of each program, taken in turns, or the error of its failure.

        Raise LostError if the machine does not answer in time.
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
        """Return for each launch of a one-lane program its seconds, in several rounds.

        Raises as :meth:`time`.
        """

        with self._opened(trial) as opened:
            limit = _PATIENCE + _MARGIN * 20 * opened.seconds
            return json.loads(self.connection.ask("profile_trial", opened.number, seconds=limit))

    def open_program(self, folder: Path) -> Any:
        """Send an executable, each content once, and load it there as a TVM module.

        Raises as :meth:`time`, and UserError if the executor there is of an earlier version.
        """
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        program = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
        if program not in self._files:
            for name, digest in digests.items():
                if digest not in self._files:
                    self.connection.send(digest, files[name])
                    self._files[digest] = str(
                        self.connection.remote("tvm.rpc.server.workpath", digest)
                    )
            path = str(self.connection.remote("tvm.rpc.server.workpath", f"program-{program}"))
            paths = [self._files[digest] for digest in digests.values()]
            request = {"folder": path, "names": [*digests], "paths": paths}
            try:
                self.connection.ask("gather_files", json.dumps(request))
            except AttributeError:
                raise UserError(
                    f"the executor that the server {self.address} has is older and times no whole "
                    "programs: install the same version of tvm-ios there and here"
                ) from None
            self._files[program] = path
        path = f"{self._files[program]}/{MODULE_FILE}"
        limit = _FIRST_RUN_SECONDS + sum(map(len, files.values())) / SLOWEST_NETWORK
        return self.connection.hold(self.connection.load(path, limit))

    @contextmanager
    def _opened(self, trial: Trial) -> Iterator[_Opened]:
        """Open a program on the machine, where it runs once, and close it at the end."""
        paths = [self._path(library) for library in trial.libraries]
        request = json.dumps({"program": trial.program, "libraries": paths})
        limit = _FIRST_RUN_SECONDS + len(request) / SLOWEST_NETWORK
        opened = json.loads(self.connection.ask("open_trial", request, seconds=limit))
        number = opened["trial"]
        try:
            yield _Opened(number, opened["seconds"])
        except TrialError:
            self.connection.ask("close_trial", number)
            raise
        self.connection.ask("close_trial", number)

    def _sampled(self, opened: _Opened, sampling: Sampling) -> list[float]:
        expected = sampling.tries * sampling.samples
        expected *= max(sampling.sample_seconds, opened.seconds)
        limit = _PATIENCE + _MARGIN * (expected + opened.seconds)
        arguments = (opened.number, *asdict(sampling).values())
        return json.loads(self.connection.ask("time_trial", *arguments, seconds=limit))

    def _path(self, library: KernelLibrary) -> str:
        """Return the path of a library on the machine; send the library if it is not there."""
        if library.name not in self._sent:
            self.connection.send(library.name, library.content)
            name = library.name
            if not library.linked:
                # TVM's server links object files as it gives the library back.
                self.connection.remote("tvm.rpc.server.download_linked_module", name)
                name += ".so"
            path = str(self.connection.remote("tvm.rpc.server.workpath", name))
            self._sent[library.name] = (path, len(library.content))
            self._free_old()
        self._sent.move_to_end(library.name)
        return self._sent[library.name][0]

    def _free_old(self) -> None:
        # The last library stays: it is about to be used.
        old: list[str] = []
        while sum(size for _, size in self._sent.values()) > _KEPT_BYTES and len(self._sent) > 1:
            name, (path, _) = self._sent.popitem(last=False)
            old.append(path)
            self.connection.remote("tvm.rpc.server.remove", name)
        if old:
            self.connection.ask("free_libraries", json.dumps({"libraries": old}))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A program that is ready on a machine: its number there, and the seconds of its first run."""

    number: int
    seconds: float
