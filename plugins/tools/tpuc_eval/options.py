"""Objects of the groups of evaluation, from the texts that users type."""

from __future__ import annotations

from typing import Any

from tpuc.api.command import build_object, parse_pass_text
from tpuc.api.host import Registry


def configured(registry: Registry, group: str, text: str) -> Any:
    """An object of an evaluation group from its text, `NAME` or `NAME{option=value,...}`; raises UsageError.

    Names are found whatever their case, and `_` and `-` are the same.
    """
    parsed = parse_pass_text(text)
    typed = parsed.name.lower().replace("_", "-")
    names = {name.lower().replace("_", "-"): name for name in registry.names(group)}
    definition = registry.get(group, names.get(typed, parsed.name))
    return build_object(registry.group(group).kind, definition, parsed)
