"""The interface of peers: other runtimes that run a model, to be timed beside our programs."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from runtime_ext.execution.bound_model import BoundModel
    from tvm_ios.files.array_files import Array


#: Takes a request (inputs by name); returns a future of the outputs in the model's order.
Submit = Callable[[Mapping[str, Any]], Future[Any]]


class PeerError(UserError):
    """Raised for a peer that is unknown or cannot be used here, with the remedy."""


@dataclass(frozen=True, slots=True)
class TvmLibrary:
    """A model as TVM compiles it on its own."""

    #: The shared library.
    path: Path
    #: The arguments of ``main`` after the model's inputs; None if the library holds the weights,
    #: and then it is loaded by TVM's Python package.
    weights: Sequence[Array] | None = None
    #: Number of functions of the model, and of those that have a schedule of a tuning log; None if
    #: it was compiled without one.
    functions: int | None = None
    tuned: int | None = None


class PeerModel(Protocol):
    """A model in the forms that peers read, and the device to run it on."""

    @property
    def inputs(self) -> Mapping[str, Array]:
        """Inputs by the model's names."""
        ...

    @property
    def lanes(self) -> int:
        """Threads to run on."""
        ...

    @property
    def gpu(self) -> bool:
        """True for a GPU, whose memory then holds inputs and outputs."""
        ...

    @property
    def precision(self) -> str:
        """The precision in which the model may be computed.

        It is ``float32``, on GPUs also ``tf32`` or ``float16`` (then float32 tensors become
        float16), and on CPUs also ``bfloat16`` (tensors stay float32).
        """
        ...

    @property
    def is_open(self) -> bool:
        """Whether dimensions that the ONNX file leaves open stay so, for inputs of any shape."""
        ...

    def onnx_file(self, folder: Path) -> Path:
        """Return an ONNX file of the model; it is written to the folder if there is none."""
        ...

    def torch_module(self) -> Any:
        """Return a ``torch.nn.Module`` on the CPU, of the tensors of ``input_names``, in order.

        It returns the tuple of its outputs.
        """
        ...

    def tvm_library(self) -> TvmLibrary:
        """Return TVM's own build of the model."""
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """A runtime that can run models.

    Attributes
    ----------
    name
        The name by which users call it.
    loader
        ``module:function``; the function makes a :class:`PeerModel` ready to run, as
        :class:`BoundModel`, and may take minutes. The module is imported when it is needed.
    library
        The Python package that it needs besides those of tvm-ios; its distribution has the same
        name.
    install
        The requirement that ``pip`` installs for it; by default ``library``.
    programs
        Programs that it needs on a CPU.
    devices
        Where it can run: ``cpu``, ``cuda`` or both.
    needs_log
        Whether it can only be used with a tuning log.
    tells_little
        Whether it runs only if it is named: ``all`` leaves it out.
    reads_tvm_build
        Whether it reads :meth:`PeerModel.tvm_library`, which is not made if no peer does.
    in_bfloat16
        Whether it computes in bfloat16 on a CPU, where it may; the others stay in float32.
    server
        ``module:function``; the function makes a :class:`PeerModel` ready for many requests on a
        CPU. Its arguments are the model, the number of requests in flight, and an ``ExitStack`` of
        resources; it returns :data:`Submit` by the name of each way. Empty if there are none.
    runs_open
        Whether it runs models whose dimensions stay open.
    starts_in_thread
        Whether it may start in another thread than it runs in, while others start: not if it keeps
        settings by thread, as PyTorch does with its number of threads.
    """

    name: str
    loader: str
    library: str | None = None
    install: str | None = None
    programs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu", "cuda")
    needs_log: bool = False
    tells_little: bool = False
    reads_tvm_build: bool = True
    in_bfloat16: bool = False
    server: str = ""
    runs_open: bool = False
    starts_in_thread: bool = False

    @property
    def module(self) -> str:
        """The module of the loader."""
        return self.loader.partition(":")[0]

    def start(self, network: PeerModel) -> BoundModel:
        """Make a model ready to run; may take minutes.

        Raises
        ------
        UserError
            If the peer refuses the model, or runs on other devices.
        """
        if ("cuda" if network.gpu else "cpu") not in self.devices:
            raise PeerError(f"{self.name} runs on {'CPUs' if network.gpu else 'GPUs'} only")
        return _function(self.loader)(network)

    def serve(self, network: PeerModel, in_flight: int, opened: ExitStack) -> Mapping[str, Submit]:
        """Make a model ready for many requests; raises as :meth:`start`."""
        self.require_server()
        return _function(self.server)(network, in_flight, opened)

    def require_server(self) -> None:
        """Require settings for many requests, or raise PeerError."""
        if not self.server:
            raise PeerError(f"the peer {self.name} has no settings for throughput: leave it out")

    def require_available(self) -> None:
        """Require that it can start on this machine's CPU, without importing anything.

        Raises
        ------
        PeerError
            If a requirement is not installed; the message says how to install it.
        """
        if "cpu" not in self.devices:
            raise PeerError(f"{self.name} runs on GPUs only")
        if self.library is not None and importlib.util.find_spec(self.library) is None:
            raise PeerError(
                f"the peer {self.name} needs {self.library}, which is not installed: "
                f"pip install '{self.install or self.library}'"
            )
        for program in self.programs:
            if shutil.which(program) is None:
                raise PeerError(
                    f"the peer {self.name} needs the program {program}, which is not on the PATH"
                )


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
