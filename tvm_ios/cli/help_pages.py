"""What ``--help`` teaches besides each command's own words: examples, panels, what comes next."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperOption


@dataclass(frozen=True, slots=True)
class HelpPage:
    """What a page shows after the command's docstring.

    Attributes
    ----------
    examples
        Command lines, each with a comment or none.
    then
        What to read or do next.
    """

    examples: tuple[str, ...]
    then: str


PAGES: Mapping[str, HelpPage] = MappingProxyType(
    {
        "models": HelpPage(
            ("tvm-ios models",), "`tvm-ios stats NAME` counts what there is to schedule in one."
        ),
        "stats": HelpPage(
            (
                "tvm-ios stats inception_v3",
                "tvm-ios stats inception_v3 --groups rooted",
                "tvm-ios stats mobilenet_v2 --batch 8 --policy graphturbo --capacity 8M",
            ),
            "`tvm-ios schedule` searches what is counted here.",
        ),
        "schedule": HelpPage(
            (
                "tvm-ios schedule inception_v3 --cost v100 --plot schedule.svg",
                "tvm-ios schedule squeezenet --cost measured -o schedule.json",
                "tvm-ios schedule squeezenet --pareto",
            ),
            "`tvm-ios optimize` searches, builds and measures in one go.",
        ),
        "optimize": HelpPage(
            (
                "tvm-ios optimize squeezenet -o out/",
                "tvm-ios optimize model.onnx --lanes 4 --time-limit 60 -o model.tar",
                "tvm-ios optimize squeezenet --policy sequential --schedule schedule.json -o out/",
                "tvm-ios optimize mobilenet_v2 --batch 8 --policy graphturbo,holistic",
            ),
            "`tvm-ios run` runs the result, `tvm-ios explain` says what bounds it.",
        ),
        "run": HelpPage(
            ("tvm-ios run out/ --input x.npz --output y.npz", "tvm-ios run out/ --repeat 100"),
            "`tvm-ios explain` says where the time goes.",
        ),
        "bundle": HelpPage(
            (
                "tvm-ios bundle squeezenet --arch x86-64-v3 --lanes 8 -o squeezenet.bundle",
                "tvm-ios bundle inception_v3 --target cuda --arch sm_90 --weights drawn",
            ),
            "`python MODEL.bundle/run.py` searches and measures on the other machine.",
        ),
        "bench": HelpPage(
            ("tvm-ios bench squeezenet resnet50 --against onnxruntime,tvm -o bench.json",),
            "`tvm-ios explain` on what `--keep` kept says why a network is not faster.",
        ),
        "tune": HelpPage(
            ("tvm-ios tune squeezenet --log log/ --time-limit 600",),
            "`tvm-ios optimize --log` uses the log.",
        ),
        "explain": HelpPage(
            ("tvm-ios explain out/", "tvm-ios explain out/ --plot timeline.svg"),
            "What helps is said below the tables: `tvm-ios tune` for faster kernels, "
            "`tvm-ios optimize` with a wider search for idle lanes.",
        ),
        "memory": HelpPage(
            (
                "tvm-ios memory darts",
                "tvm-ios memory hrnet_w32 --scheduler rpo,optimal --in-place --plot memory.svg",
                "tvm-ios memory model.onnx --budget 4M",
            ),
            "`tvm-ios schedule --memory-budget` finds the fastest schedule that fits.",
        ),
        "doctor": HelpPage(
            ("tvm-ios doctor",), "CONTRIBUTING.md says how to set up everything from the source."
        ),
    }
)

#: The panel that an option stands in, by its parameter's name; others stand under "Options".
#: Pages show the panels in this order.
PANELS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("dialect", "shape", "batch", "random_weights", "inputs", "seed"), "Model and inputs"
        ),
        **dict.fromkeys(
            (
                *(
                    "policy",
                    "schedule",
                    "cost",
                    "measure",
                    "r",
                    "s",
                    "max_block",
                    "reuse",
                    "groups",
                ),
                *(
                    "scheduler",
                    "units",
                    "in_place",
                    "zero_copy_concat",
                    "rewrite",
                    "pareto",
                    "capacity",
                ),
            ),
            "Search",
        ),
        **dict.fromkeys(("target", "arch", "precision", "cudnn", "weights"), "Target"),
        **dict.fromkeys(
            (
                *("max_measurements", "time_limit", "trials", "max_merges", "max_fused"),
                *("budget", "memory_budget", "all_blocks"),
            ),
            "Limits",
        ),
        **dict.fromkeys(
            ("lanes", "log", "against", "reference", "with_tvm", "repeat", "rounds", "seconds"),
            "Running and measuring",
        ),
        **dict.fromkeys(
            ("output", "plot", "keep", "resume", "compact", "as_json", "debug"), "Output"
        ),
    }
)


def command_with_page(function: Callable[..., Any]) -> TyperCommand:
    """The command of a function, under its name and with its help page."""
    name = function.__name__
    page = PAGES[name]
    lines = "\n".join(f"  $ {line}" for line in page.examples)
    words = escape(f"{inspect.getdoc(function)}\n\nFor example:\n{lines}")
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    register = app.command(name, cls=_PanelledCommand, help=words, epilog=f"Next: {page.then}")
    register(function)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


class _PanelledCommand(TyperCommand):
    """A command whose options stand in panels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if isinstance(parameter, TyperOption):
                parameter.rich_help_panel = PANELS.get(parameter.name)
        # Pages show panels in the order in which parameters first name them.
        panels = [None, *dict.fromkeys(PANELS.values())]
        self.params.sort(key=lambda p: panels.index(getattr(p, "rich_help_panel", None)))
