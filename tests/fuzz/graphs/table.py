"""The operators that random graphs consist of: by name, who adds one, and since which opset there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.graphs.maker import Maker

Make = Callable[[Maker, str], None]


@dataclass(frozen=True)
class Operator:
    """How often it is chosen is its `weight` among all weights."""

    make: Make
    since: int
    weight: float


OPERATORS: dict[str, Operator] = {}


def makes(*names: str, since: int = 13, weight: float = 1.0) -> Callable[[Make], Make]:
    """The function adds these operators, `since` being that of the operator or of the form that it writes."""

    def register(make: Make) -> Make:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = Operator(make, since, weight)
        return make

    return register
