"""Sentences of `refuse` are read from the source: all of them, and never more than there are."""

from __future__ import annotations

from typing import Any

from refusals import Refusals, refusals_of
from tpuc.api import Node, TileKernel
from tpuc_testing.packages import make_importable

from tests.families import each
from tests.third_party.distributions import TOY_CHIP

make_importable(TOY_CHIP)

LARGEST = 15
FLAG = "--flag"


def too_many(count: int, largest: int = LARGEST) -> str | None:
    return f"at most {largest} of them, this one has {count}" if count > largest else None


def computed(node: Node) -> str:
    return node.name.upper()


class Plain(TileKernel[Any, Any]):
    """Constants, both arms of a condition, alternatives, and a name."""

    def refuse(self, node: Node) -> str | None:
        if node.name == "a":
            return "a is taken"
        if node.name == "b":
            return "b" if node.op else None
        reason = self.other(node) or too_many(len(node.name))
        if reason:
            return reason
        return f"only with {FLAG}; these are {node.name}; permute them"

    def other(self, node: Node) -> str | None:
        return too_many(len(node.name), 7)


class Heir(Plain):
    """Its own and what the base says."""

    def refuse(self, node: Node) -> str | None:
        return "no heirs" if node.op else super().refuse(node)


class Either(TileKernel[Any, Any]):
    """Hands the node to another kernel."""

    def __init__(self) -> None:
        self._one, self._two = Heir(), Silent()

    def refuse(self, node: Node) -> str | None:
        return (self._one if node.op else self._two).refuse(node)


class Silent(TileKernel[Any, Any]):
    """Refuses nothing."""


class Unreadable(TileKernel[Any, Any]):
    """One sentence that is made at run time."""

    def refuse(self, node: Node) -> str | None:
        return "readable" if node.op else computed(node)


PLAIN = ("a is taken", "b", "at most 7 of them", "at most 15 of them", "only with --flag; permute them")


@each(
    ("cell", "expected"),
    [
        (Plain(), Refusals(PLAIN, True)),
        (Heir(), Refusals(("no heirs", *PLAIN), True)),
        (Either(), Refusals(("no heirs", *PLAIN), True)),
        (Silent(), Refusals((), True)),
        (Unreadable(), Refusals(("readable",), False)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sentences_are_collected(cell: object, expected: Refusals) -> None:
    assert refusals_of(cell) == expected


def test_the_toy_chip_s_are_those_of_its_tests() -> None:
    from toy_chip.kernels import TABLE

    assert refusals_of(TABLE.cells["tpu.Permute"]).sentences == ("at most 4 dimensions",)
    assert refusals_of(TABLE.cells["tpu.Conv2D"]) == Refusals(
        (
            "only group 1",
            "only products that are requantized to 8 bits, this one has no multiplier",
            "only MultiplierShift and HalfUp",
            "only int8 and uint8",
            "only zero point 0",
        ),
        True,
    )
