"""The registry of policies: built-in ones, and those of other packages' ``tvm_ios.policies``."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from tvm_ios.errors import SearchError, nearest
from tvm_ios.extensions import ExtensionError, extensions, load_extension

if TYPE_CHECKING:
    from tvm_ios.costs.costs import Offer
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.policies.policy import Policy

#: The entry points of other packages' policies.
GROUP = "tvm_ios.policies"

#: The module of each built-in policy, imported when it is asked for.
OURS = {
    "sequential": "sequential:SEQUENTIAL",
    "greedy": "greedy:GREEDY",
    "ios-merge": "ios:IOS_MERGE",
    "ios-parallel": "ios:IOS_PARALLEL",
    "ios-both": "ios:IOS_BOTH",
    "rammer": "rammer:RAMMER",
    "ios-holistic": "ios:IOS_HOLISTIC",
    "graphturbo": "graphturbo:GRAPHTURBO",
    "holistic": "holistic:HOLISTIC",
    "memory": "memory:MEMORY",
    "heft": "heft:HEFT",
    "nimble": "nimble:NIMBLE",
    "opara": "opara:OPARA",
    "together": "together:TOGETHER",
}


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies, the built-in ones first."""
    return tuple(dict.fromkeys((*OURS, *extensions(GROUP))))


def policy_modules() -> tuple[str, ...]:
    """Return the modules of the built-in policies, which are only imported by name."""
    return tuple(dict.fromkeys(_module(name) for name in OURS))


def _module(name: str) -> str:
    return f"{__package__}.{OURS[name].partition(':')[0]}"


def policy_named(name: str) -> Policy:
    """Return the policy of a name.

    Raise SearchError if there is none, ExtensionError if the package that adds it is broken.
    """
    if name in OURS:
        return getattr(importlib.import_module(_module(name)), OURS[name].partition(":")[2])
    if name in extensions(GROUP):
        from tvm_ios.policies.policy import Policy

        return load_extension(GROUP, name, Policy)
    raise SearchError(
        f"there is no policy {name!r} to search with: use {', '.join(policy_names())}"
        + nearest(name, policy_names())
    )


def tried_policies(
    offers: Collection[Offer], units: OpGraph | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the policies tried by default with costs of these offers, and the broken extensions.

    The first are names; the second are sentences, one for each policy that cannot be loaded. If
    ``units`` is None, only policies for every graph are returned.
    """
    names: list[str] = []
    broken: list[str] = []
    for name in policy_names():
        try:
            policy = policy_named(name)
        except ExtensionError as error:
            broken.append(str(error))
        else:
            fits = policy.tried_for is None or (units is not None and policy.tried_for(units))
            if policy.tried and fits and policy.needs <= frozenset(offers):
                names.append(name)
    return tuple(names), tuple(broken)
