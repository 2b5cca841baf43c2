"""Tunes the networks of ``networks.py`` by AutoTVM: ``tuning_logs/relay/NETWORK.log``.

Runs with the TVM that has Relay, while nothing else runs; the second line then compares::

    .venv-relay/bin/relay-python -m benchmarks.relay.tuning --seconds 420
    .venv-relay/bin/relay-python -m benchmarks.relay.networks --logs tuning_logs/relay squeezenet

``--seconds`` is for each network, beside a minute or two to extract the tasks and to measure all
units before and after. It can be stopped and started at will: trials are written at once and are
not made again, and rounds go on where the network may gain most. With ``--pick`` only the best
record of each operator stays in the log, as AutoTVM's own ``--mode pick`` chooses them. With
``--all-blocks`` half of the trials look into other blocks of channels than TVM's own, for
``blocks.py``.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tune(
    name: str, folder: Path, lanes: int, trials: int, seconds: float | None, all_blocks: bool
) -> None:
    """Tune a network, or go on with it, and say what came of it."""
    from benchmarks.relay.networks import logits_of
    from relay_passes import SearchOptions
    from tvm_ios.api.tune import tune_module
    from tvm_ios.cli.frame.output import progress_bars

    with progress_bars() as update:
        done = tune_module(
            logits_of(name),
            folder / f"{name}.log",
            name=name,
            options=SearchOptions(lanes=lanes),
            trials=trials,
            time_limit=seconds,
            all_blocks=all_blocks,
            progress=update,
            tuning=lambda done, total, *_: update("tuning", done, total),
        )
    print(
        f"{name}: {len(done.kernels)} operators in the log, {done.missing} of the network and "
        f"{done.untouched} merge candidates are not; {sum(k.new_trials for k in done.kernels)} "
        f"trials in {done.seconds:.0f} s; all units one after another {done.default * 1e3:.3f} ms "
        f"by default, {done.tuned * 1e3:.3f} ms tuned"
    )


def pick(log: Path) -> None:
    """Keep the best record of each operator."""
    from tvm import autotvm

    from tvm_ios.files.atomic import temporary_folder

    with temporary_folder(log.parent, f".{log.name}.") as folder:
        picked = folder / log.name
        autotvm.record.pick_best(str(log), str(picked))
        picked.replace(log)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=["squeezenet", "inception_v3"])
    parser.add_argument("--folder", type=Path, default=ROOT / "tuning_logs" / "relay")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--trials", type=int, default=512, help="of each operator, at most")
    parser.add_argument("--seconds", type=float, help="of tuning, for each network")
    parser.add_argument("--pick", action="store_true", help="only keep the best records")
    parser.add_argument("--all-blocks", action="store_true", help="not only TVM's own")
    given = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(given.lanes)
    for name in given.networks:
        if given.pick:
            pick(given.folder / f"{name}.log")
        else:
            limits = given.trials, given.seconds, given.all_blocks
            tune(name, given.folder, given.lanes, *limits)


if __name__ == "__main__":
    main()
