"""The registry of peers: ours, and those that other packages add as ``tvm_ios.peers``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runtime_ext.peers.peer import Peer, PeerError, PeerModel, Submit
from tvm_ios.extensions import extensions, load_extension
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from runtime_ext.execution.bound_model import BoundModel
    from tvm_ios.files.array_files import Array

#: The entry points of other packages' peers.
GROUP = "tvm_ios.peers"

_LIBRARY = partial(Peer, reads_tvm_build=False)
_ONNXRUNTIME = partial(
    _LIBRARY,
    library="onnxruntime",
    install="tvm-ios[bench]",
    runs_open=True,
    starts_in_thread=True,
)
_TORCH = partial(_LIBRARY, library="torch", install="tvm-ios[torch]", in_bfloat16=True)
_GPU = ("cuda",)

#: The peers that come with tvm-ios.
OURS: Mapping[str, Peer] = {
    peer.name: peer
    for peer in (
        _ONNXRUNTIME(
            "onnxruntime",
            "runtime_ext.peers.onnxruntime_peer:start",
            server="runtime_ext.peers.onnxruntime_peer:serve",
        ),
        _ONNXRUNTIME(
            "onnxruntime-graph", "runtime_ext.peers.onnxruntime_peer:start_graph", devices=_GPU
        ),
        _LIBRARY(
            "openvino",
            "runtime_ext.peers.openvino_peer:start",
            library="openvino",
            install="tvm-ios[openvino]",
            devices=("cpu",),
            in_bfloat16=True,
            server="runtime_ext.peers.openvino_peer:serve",
            runs_open=True,
            starts_in_thread=True,
        ),
        _TORCH("torch", "runtime_ext.peers.torch_peer:start"),
        _TORCH("torch-nhwc", "runtime_ext.peers.torch_peer:start_nhwc"),
        _TORCH("torch-graph", "runtime_ext.peers.torch_peer:start_graph", devices=_GPU),
        _TORCH("torch-graph-nhwc", "runtime_ext.peers.torch_peer:start_graph_nhwc", devices=_GPU),
        _TORCH("torch-compile", "runtime_ext.peers.torch_peer:start_compiled", programs=("g++",)),
        _TORCH(
            "torch-max-autotune",
            "runtime_ext.peers.torch_peer:start_max_autotune",
            programs=("g++",),
        ),
        _LIBRARY(
            "executorch",
            "runtime_ext.peers.executorch_peer:start",
            library="executorch",
            install="tvm-ios[executorch]",
            devices=("cpu",),
        ),
        # Untuned it is tens to hundreds of times slower than others, and takes minutes for that.
        Peer("tvm", "runtime_ext.peers.tvm_peer:start", tells_little=True),
        Peer(
            "tvm-tuned", "runtime_ext.peers.tvm_peer:start_tuned", devices=("cpu",), needs_log=True
        ),
    )
}


def peer_names(device: str | None = None) -> tuple[str, ...]:
    """Return the names of all peers, ours first; ours only if they can run on the device."""
    ours = (name for name, peer in OURS.items() if device is None or device in peer.devices)
    return tuple(dict.fromkeys((*ours, *(name for name in extensions(GROUP) if name not in OURS))))


def peer_modules() -> tuple[str, ...]:
    """Return the modules of our peers, which bundles contain."""
    return tuple(dict.fromkeys(peer.module for peer in OURS.values()))


def peer_named(name: str) -> Peer:
    """Return the peer of a name.

    Raise PeerError if there is none, ExtensionError if the package that adds it is broken.
    """
    if name in OURS:
        return OURS[name]
    if name in extensions(GROUP):
        return load_extension(GROUP, name, Peer)
    raise PeerError(f"there is no peer {name!r}; there are: {', '.join(peer_names())}")


def available_peers(names: Iterable[str]) -> tuple[Peer, ...]:
    """Return the peers of these names, each once, all of them able to start on this machine's CPU.

    Raise PeerError if one is unknown or needs something that is not installed, ExtensionError if
    the package that adds one is broken.
    """
    peers = tuple(map(peer_named, dict.fromkeys(names)))
    for peer in peers:
        peer.require_available()
    return peers


def installed_peers() -> tuple[str, ...]:
    """Return the names of the peers that can start on this machine's CPU.

    Raise ExtensionError if a package that adds one is broken.
    """

    def is_installed(name: str) -> bool:
        try:
            peer_named(name).require_available()
        except PeerError:
            return False
        return True

    return tuple(name for name in peer_names("cpu") if is_installed(name))


def peers_to_compare(*, with_log: bool, serving: bool = False) -> tuple[str, ...]:
    """Return the names of the installed peers that a model is compared with on this machine's CPU.

    ``with_log`` includes those that need a tuning log; ``serving`` leaves out those without
    settings for many requests. Raise ExtensionError if a package that adds one is broken.
    """
    return tuple(
        peer.name
        for peer in map(peer_named, installed_peers())
        if not peer.tells_little
        and (with_log or not peer.needs_log)
        and (peer.server or not serving)
    )


def require_log(peers: Iterable[Peer], log: Path | None) -> None:
    """Require a tuning log if a peer needs one, or raise PeerError naming the first such peer."""
    for peer in peers:
        if peer.needs_log and log is None:
            raise PeerError(
                f"the peer {peer.name} is built with a tuning log of TVM's functions: tune them by "
                "MetaScheduleTuneIRMod, and give the log's folder as --log"
            )


def serve_peers(
    names: Iterable[str], network: PeerModel, in_flight: int, opened: ExitStack
) -> tuple[dict[str, Submit], dict[str, str]]:
    """Make peers ready for many requests.

    Return the ways to serve requests by name, and for each peer that failed a sentence with the
    reason.
    """
    ways: dict[str, Submit] = {}
    failed: dict[str, str] = {}
    for name in dict.fromkeys(names):
        try:
            ways |= peer_named(name).serve(network, in_flight, opened)
        # Compilers of others raise errors of any type, as in start_peers.
        except Exception as error:
            failed[name] = " ".join(str(error).split())[:300] or repr(error)
    return ways, failed


def start_peers(
    names: Iterable[str], network: PeerModel, progress: Progress
) -> tuple[dict[str, BoundModel], dict[str, list[Array]], dict[str, str]]:
    """Start peers and run each once; those that can start in threads of their own, side by side.

    Return the peers that run, their outputs, and for each other peer a sentence with the reason.
    """
    started: dict[str, BoundModel] = {}
    outputs: dict[str, list[Array]] = {}
    failed: dict[str, str] = {}

    def ready(name: str) -> tuple[BoundModel, list[Array]]:
        peer = peer_named(name).start(network)
        return peer, peer.outputs(peer.run())

    distinct = tuple(dict.fromkeys(names))
    # On a GPU one would launch kernels while another one captures its graph.
    can = (name for name in distinct if name in OURS and OURS[name].starts_in_thread)
    in_threads = () if network.gpu else tuple(can)
    with ThreadPoolExecutor() as pool:
        futures = {name: pool.submit(ready, name) for name in in_threads}
        for done, name in enumerate(distinct):
            progress("starting peers", done, len(distinct))
            try:
                future = futures.get(name)
                started[name], outputs[name] = future.result() if future else ready(name)
            except ImportError as error:
                failed[name] = f"not installed: {error}"
            # Compilers and exporters of others raise anything; the rest is compared all the same.
            except Exception as error:
                failed[name] = " ".join(str(error).split())[:300] or repr(error)
    progress("starting peers", len(distinct), len(distinct))
    return started, outputs, failed
