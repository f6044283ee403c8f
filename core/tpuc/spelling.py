"""Names that were spelled in British English: plugins may use them until version 0.3."""

from __future__ import annotations

import functools
import re
from typing import Any, TypeVar

T = TypeVar("T")
_BRITISH = re.compile("((?:quant|legal|equal|normal)i)s(?=e|ation)", re.IGNORECASE)


def american(name: str) -> str:
    """`is_quantized` for `is_quantised`, `legalize` for `legalise`; other names stay."""
    return _BRITISH.sub(lambda match: match[1] + ("Z" if match[1].isupper() else "z"), name)


def takes_british_arguments(definition: type[T]) -> type[T]:
    """Class decorator: keyword arguments of the constructor may have their old spelling."""
    made: Any = definition.__init__

    @functools.wraps(made)
    def init(self: Any, *values: Any, **named: Any) -> None:
        old = {american(name): named.pop(name) for name in tuple(named) if american(name) != name}
        made(self, *values, **(named | old))

    definition.__init__ = init
    return definition
