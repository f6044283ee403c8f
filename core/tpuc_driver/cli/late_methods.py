"""Let dataclasses compile each of their methods at its first call, which makes commands start a quarter sooner.

Before Python 3.13, `dataclass` compiles up to six methods for each class as it is defined, and a command imports
hundreds of classes of which it makes a few. The standard library offers no switch, so this changes one function of it.
Only a process that runs nothing but one command may do so; where that function is not the known one, nothing changes.
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
"""Later ones compile all methods of a class at once, which costs little."""
PARAMETERS = ["name", "args", "body", "globals", "locals", "return_type"]
"""Those of the known function."""


def compile_methods_late() -> None:
    """From now on the methods of new dataclasses are compiled when they are first called."""
    create = getattr(dataclasses, "_create_fn", None)
    if (
        sys.version_info[:2] <= LAST_VERSION
        and create is not None
        and [*inspect.signature(create).parameters] == PARAMETERS
    ):
        setattr(dataclasses, "_create_fn", functools.partial(_late, create))  # noqa: B010  # a private name for pyright


def _late(create: Callable[..., Method], name: str, *args: Any, **kwargs: Any) -> Method:
    """A method that compiles itself, and then takes its own place in the class that has it."""
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
