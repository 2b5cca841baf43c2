"""Commands of pages that no test runs, each with the reason. All others are run."""

from __future__ import annotations

import re

from tests.docs.pages import Command

#: A pattern of whole command lines, and why they are only parsed.
NOT_RUN = {
    r"(pip|python3 -m venv) .*": "it would change the tests' environment; tests/release installs",
    r"make .*": "it sets up environments and runs all tests; the checks of a change run it",
    r"(pytest|cibuildwheel|twine) .*": "a release needs Docker and accounts; tests/release builds",
    r"tvm-ios .*--state .*|tvm-ios run vad/.*": "it needs a package's network; tests/cli have one",
    r"ssh .*": "it needs another machine",
    r"ray start .*": "a cluster outlives the command; tests/sweep start one",
    r"python -m tvm\.exec\.rpc_tracker .*": "it never ends; tests/fleet start trackers and servers",
    r"tvm-ios server": "it never ends, and needs a tracker; tests/fleet start servers",
    r"tvm-ios .*--tracker .*": "it needs servers on a fixed port; tests/fleet use free ports",
    r"tvm-ios .*--arch armv8-a.*": "it needs a linker for Arm; tests/cli/test_cross_compiling.py",
    r"tvm-ios .*--target cuda .*": "it needs an NVIDIA GPU or its log; tests/cuda use a stand-in",
    r"python suite/gpu\.py .*": "it needs an NVIDIA GPU",
    r".* --dialect relay.*|tvm-ios run squeezenet\.ios": "it needs a TVM with Relay; tests/relay",
    r"python -m tvm\.autotvm.*": "it needs a TVM with Relay",
    r"python -m benchmarks\..*": "it measures for minutes to hours; tests/bench see that it starts",
    r"python docs/make/.*": "it rewrites pages; tests/docs compare what it would write",
    r"python -m tests\..*": "it runs as long as it is let; folders of tests have short runs of it",
    r"tvm-ios --install-completion": "it changes the user's shell; tests/cli let shells complete",
    r"cmake .*|build/example/.*": "tests/native compile and run these programs",
    r"tvm-ios optimize --policy critical-path": "its policy is made in the notebook, which is run",
}


def reason_not_to_run(command: Command) -> str | None:
    """Why a command is not run; None if it is."""
    return next((why for line, why in NOT_RUN.items() if re.fullmatch(line, command.line)), None)
