"""Modules of torch by ``torch.compile``: our backend beside Inductor and eager mode.

The seconds of the first call are those of a fresh process each: with an empty cache, with the
cache of the run before (*again*), and for Inductor with an empty cache. Then one process has all
three, which run in turn; the figures are medians of the ratios of runs that follow one another.
*Error* is the largest difference to eager mode, relative to the largest output.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.report import update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules

OURS, INDUCTOR, EAGER = "tvm_ios", "inductor", "eager"


def resnet() -> tuple[Any, Any]:
    """ResNet-18: its layers, and one image."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int, out: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *(nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()),
                *(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)),
            )
            short = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            self.short = short if stride > 1 or width != out else nn.Identity()

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for w, out, s in stages for b in (Block(w, out, s), Block(out, out, 1))]
    stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head), torch.randn(1, 3, 224, 224)


def mobilenet() -> tuple[Any, Any]:
    """MobileNet v2: inverted residuals with depthwise convolutions, and one image."""
    import torch
    from torch import nn

    def convolution(width: int, out: int, size: int, stride: int, groups: int = 1) -> list[Any]:
        layer = nn.Conv2d(width, out, size, stride, size // 2, groups=groups, bias=False)
        return [layer, nn.BatchNorm2d(out)]

    class Inverted(nn.Module):
        def __init__(self, width: int, out: int, stride: int, factor: int) -> None:
            super().__init__()
            inner = width * factor
            widen = [*convolution(width, inner, 1, 1), nn.ReLU6()] if factor > 1 else []
            depthwise = [*convolution(inner, inner, 3, stride, inner), nn.ReLU6()]
            self.body = nn.Sequential(*widen, *depthwise, *convolution(inner, out, 1, 1))
            self.adds = stride == 1 and width == out

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.adds else self.body(x)

    layers: list[Any] = [*convolution(3, 32, 3, 2), nn.ReLU6()]
    width = 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for factor, out, count, stride in (*table, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for number in range(count):
            layers.append(Inverted(width, out, 1 if number else stride, factor))
            width = out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    layers += [*convolution(width, 1280, 1, 1), nn.ReLU6(), *head]
    return nn.Sequential(*layers), torch.randn(1, 3, 224, 224)


def encoder() -> tuple[Any, Any]:
    """Six layers of a text encoder with 384 channels, as MiniLM has, and 128 tokens."""
    import torch
    from torch import nn

    width = 384
    layer = nn.TransformerEncoderLayer(width, 12, 4 * width, activation="gelu", batch_first=True)
    stack = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(30522, width), stack), torch.randint(0, 30522, (1, 128))


NETWORKS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "resnet18": resnet,
    "mobilenet_v2": mobilenet,
    "encoder": encoder,
}


def compiled(network: str, backend: str, lanes: int) -> tuple[Callable[[], Any], str]:
    """A call of a network by a backend, and the version of torch."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(lanes)
    module, x = NETWORKS[network]()
    run = module.eval()
    if backend != EAGER:
        torch._dynamo.reset()
        run = torch.compile(run, backend=backend)

    def call() -> Any:
        with torch.inference_mode():
            return run(x)

    return call, torch.__version__


def child(what: str, network: str, lanes: int, rounds: int) -> dict[str, Any]:
    """Return the measurements of a process: of a backend's first call, or of all in turn."""
    if what != "in turn":
        call, version = compiled(network, what, lanes)
        begin = time.perf_counter()
        call()
        return {"first": time.perf_counter() - begin, "torch": version}
    runs = {name: compiled(network, name, lanes)[0] for name in (OURS, INDUCTOR, EAGER)}
    outputs = {name: run().numpy() for name, run in runs.items()}
    seconds = run_in_turn(runs, Rules(rounds=rounds, warm_up=3))
    # Slow ones ran in the first rounds only.
    ratios = {
        name: paired_ratio(seconds[OURS][: len(other)], other)
        for name, other in seconds.items()
        if name != OURS
    }
    largest = float(np.abs(outputs[EAGER]).max())
    return {
        "milliseconds": float(np.median(seconds[OURS])) * 1e3,
        "ratios": {name: [r.median, r.low, r.high] for name, r in ratios.items()},
        "error": float(np.abs(outputs[OURS] - outputs[EAGER]).max()) / largest,
    }


def measured(what: str, network: str, arguments: Any, caches: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.networks.torch_compile", network]
    command += ["--lanes", str(arguments.lanes), "--rounds", str(arguments.rounds)]
    environment = {
        **os.environ,
        "TVM_IOS_CACHE": str(caches / "tvm_ios"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
    }
    done = subprocess.run(
        [*command, "--child", what], env=environment, check=True, stdout=subprocess.PIPE
    )
    return json.loads(done.stdout.splitlines()[-1])


def row_of(network: str, arguments: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        caches = Path(folder)
        first = measured(OURS, network, arguments, caches)
        again = measured(OURS, network, arguments, caches)
        inductor = measured(INDUCTOR, network, arguments, caches)
        in_turn = measured("in turn", network, arguments, caches)
    return {
        "network": network,
        "lanes": arguments.lanes,
        "torch": first["torch"],
        "first_seconds": first["first"],
        "again_seconds": again["first"],
        "inductor_seconds": inductor["first"],
        **in_turn,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--rounds", type=int, default=41, help="runs of each")
    parser.add_argument("--lanes", type=int, default=2, help="threads of each")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        (network,) = arguments.networks
        print(json.dumps(child(arguments.child, network, arguments.lanes, arguments.rounds)))
        return
    rows = [row_of(network, arguments) for network in arguments.networks]
    table = Table("network", "first (s)", "again", "Inductor's", "ms", "to Inductor", "to eager")
    for row in rows:
        seconds = (row[f"{name}_seconds"] for name in ("first", "again", "inductor"))
        ratios = (row["ratios"][name] for name in (INDUCTOR, EAGER))
        table.add_row(
            row["network"],
            *(f"{second:.1f}" for second in seconds),
            f"{row['milliseconds']:.2f}",
            *("{:.2f} ({:.2f} to {:.2f})".format(*ratio) for ratio in ratios),
        )
    console().print(table)
    update_result("torch_compile", rows, "network", "lanes")


if __name__ == "__main__":
    main()
