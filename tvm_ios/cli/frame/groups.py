"""Groups of options: dataclasses whose fields are options of each command that takes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes its own options and then each field of its groups."""
    own: list[inspect.Parameter] = []
    of_groups: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not is_dataclass(group):
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        assert isinstance(group, type), "a parameter's type, and no value"
        hints = get_type_hints(group, include_extras=True)
        groups[parameter.name] = group
        of_groups += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in fields(group)
        ]

    @wraps(command)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    # Typer reads this signature; without it, it would evaluate the annotations of the groups.
    vars(flat).update(__signature__=inspect.Signature([*own, *of_groups]))
    flat.__annotations__ = {}
    return flat
