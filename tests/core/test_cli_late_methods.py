"""Dataclasses whose methods are compiled at their first call behave as all others do."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tpuc_driver.cli.late_methods import FEW, LAST_VERSION, compile_methods_late


def classes(dataclass: Any) -> SimpleNamespace:
    """One of each form, defined anew."""

    @dataclass(frozen=True)
    class Plain:
        width: int
        name: str = "x"
        parts: list[int] = field(default_factory=list[int], compare=False)

    @dataclass(frozen=True, kw_only=True)
    class Derived(Plain):
        depth: int = 3

        def __post_init__(self) -> None:
            object.__setattr__(self, "depth", self.depth + 1)

    @dataclass
    class Open:
        inner: Any = None

    class Child(Open):  # pyright: ignore[reportUnusedClass]  # used as a local
        def __init__(self, inner: Any) -> None:
            super().__init__(inner)

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        value: int

    @dataclass(frozen=True, eq=False)
    class Same:
        value: int

    @dataclass(frozen=True)
    class Slotted(Ordered):
        other: list[int] = field(default_factory=list[int], init=False)

    @dataclass
    class Given:
        """Takes what it does not keep."""

        first: int
        factor: InitVar[int] = 2
        last: int = field(default=7, init=False, repr=False)

        def __post_init__(self, factor: int) -> None:
            self.first *= factor

    class Between(Plain):
        """No dataclass of its own."""

    @dataclass(frozen=True)
    class Below(Between):  # noqa: PLW1641  # dataclass adds it
        size: ClassVar[int] = 3
        own: int = 1

        def __eq__(self, other: object) -> bool:
            return self.own == getattr(other, "own", None)

    @dataclass(frozen=True, repr=False)
    class Named:
        value: int

        def __repr__(self) -> str:
            return f"<{self.value}>"

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, type)})


def behavior(of: SimpleNamespace) -> list[str]:
    """What the classes do, twice: at the first call of each method and at the second."""
    own = of.Open()
    own.inner = own
    shown = [of.Plain(3), of.Plain(3, "y", [1]), of.Derived(width=1), of.Open(1), own, of.Child(2), of.Ordered(1)]
    calls: list[Callable[[], object]] = [
        lambda: list(map(repr, [*shown, of.Named(5)])),
        lambda: of.Plain(3).parts is of.Plain(3).parts,
        lambda: (of.Plain(3) == of.Plain(3, parts=[1]), of.Plain(3) == of.Plain(4), of.Plain(3) == of.Derived(width=3)),
        lambda: (hash(of.Plain(3)) == hash((3, "x")), hash(of.Ordered(2)) == hash((2,)), of.Open.__hash__ is None),
        lambda: (of.Same(1) == of.Same(1), len({of.Same(1), of.Same(1)}), len({of.Plain(1), of.Plain(1)})),
        lambda: (
            sorted([of.Ordered(2), of.Ordered(1)]) == [of.Ordered(1), of.Ordered(2)],
            of.Ordered(1) >= of.Ordered(2),
        ),
        lambda: dataclasses.replace(of.Derived(width=1), depth=8) == of.Derived(width=1, depth=8),
        lambda: [one.name for one in dataclasses.fields(of.Derived)],
        lambda: dataclasses.astuple(of.Open(of.Plain(1))),
        lambda: (of.Plain.__init__.__qualname__, of.Plain.__match_args__, hasattr(of.Ordered(1), "__dict__")),
        lambda: (of.Slotted(1), hasattr(of.Slotted(1), "__dict__"), copy.copy(of.Slotted(4)), copy.copy(of.Ordered(4))),
        lambda: (of.Given(2), of.Given(2, 5), of.Given(2, factor=3), of.Given(1).last),
        lambda: (of.Below(1), of.Below(1) == of.Below(2, own=1), hash(of.Below(2)) == hash((2, "x", 1)), of.Below.size),
        lambda: [of.Plain(index) for index in range(20)],
        of.Plain,
        lambda: of.Derived(1),
        lambda: of.Plain(1, 2, [], 4),
        lambda: of.Plain(1, width=2),
        lambda: of.Plain(1, depth=2),
        lambda: of.Given(1, 2, 3),
        lambda: delattr(of.Slotted(1), "value"),
        lambda: setattr(of.Ordered(1), "value", 2),
        lambda: dataclasses.dataclass(type("Thawed", (of.Plain,), {"__doc__": "x"})),
        lambda: dataclasses.dataclass(frozen=True)(type("Frozen", (of.Open,), {"__doc__": "x"})),
        lambda: setattr(of.Plain(1), "width", 2),
        lambda: setattr(of.Derived(width=1), "new", 2),
        lambda: delattr(of.Plain(1), "width"),
        lambda: of.Plain(1) < of.Plain(2),
    ]
    return [_outcome(call) for call in calls for _ in range(2)]


def _outcome(call: Callable[[], object]) -> str:
    try:
        return repr(call())
    except (TypeError, FrozenInstanceError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataclasses, "dataclass", dataclasses.dataclass)
    compile_methods_late()


def test_they_behave_as_before(late: None, request: pytest.FixtureRequest) -> None:
    after = behavior(classes(dataclasses.dataclass))
    request.getfixturevalue("monkeypatch").undo()
    assert after == behavior(classes(dataclasses.dataclass))


def test_a_method_is_compiled_once_where_it_is_called_often(late: None) -> None:
    plain = classes(dataclasses.dataclass).Plain
    before = plain.__init__
    for _ in range(FEW):
        plain(1)
    assert plain.__init__ is before
    plain(1)
    assert (plain.__init__ is not before) == (sys.version_info[:2] <= LAST_VERSION)
    assert plain.__init__.__code__.co_varnames[:3] == ("self", "width", "name")
