"""Compile the methods of dataclasses at their first call, which makes commands start a quarter sooner.

Before Python 3.13, `dataclass` compiles up to six methods for each class at definition, and a command imports hundreds
of classes of which it instantiates few. The standard library offers no switch, so this replaces one of its functions.
Only a process that runs a single command may do so; if the function is not the known one, nothing changes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

Method: TypeAlias = Callable[..., Any]

LAST_VERSION = (3, 12)
"""Later versions compile all methods of a class at once, which is fast."""
PARAMETERS = ["name", "args", "body", "globals", "locals", "return_type"]
"""The parameters of the known function."""


def compile_methods_late() -> None:
    """Compile the methods of dataclasses defined from now on at their first call."""
    create = getattr(dataclasses, "_create_fn", None)
    if (
        sys.version_info[:2] <= LAST_VERSION
        and create is not None
        and [*inspect.signature(create).parameters] == PARAMETERS
    ):
        setattr(dataclasses, "_create_fn", functools.partial(_late, create))  # noqa: B010  # a private name for pyright


def _late(create: Callable[..., Method], name: str, *args: Any, **kwargs: Any) -> Method:
    """A method that compiles itself and then replaces itself in its class."""
    made: Method | None = None

    def method(self: object, *operands: Any, **named: Any) -> Any:
        nonlocal made
        if made is None:
            made = create(name, *args, **kwargs)
            made.__qualname__ = method.__qualname__
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    type.__setattr__(owner, name, made)
        return made(self, *operands, **named)

    method.__name__ = name
    return method
