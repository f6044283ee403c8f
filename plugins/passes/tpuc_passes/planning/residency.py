"""What of an operation lies in local memory before and after it; written into the module as attributes."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import ArrayAttr, Attribute, IntegerAttr, Operation

KEPT, FETCHED, HELD, STORED = "kept", "fetched", "held", "stored"


@dataclass(frozen=True)
class Residency:
    """Operands that an earlier operation left in local memory (`kept`), operands that are loaded whole and stay
    (`fetched`); other operands are loaded by parts. Results that stay (`held`) and results that go to DDR (`stored`).
    """

    kept: frozenset[int]
    fetched: frozenset[int]
    held: frozenset[int]
    stored: frozenset[int]

    @staticmethod
    def alone(operation: Operation) -> Residency:
        """Nothing stays: operands by parts, all results to DDR."""
        none: frozenset[int] = frozenset()
        return Residency(none, none, none, frozenset(range(len(operation.results))))

    @staticmethod
    def of(operation: Operation) -> Residency:
        """As written on an operation."""
        attributes = operation.extra_attributes
        alone = Residency.alone(operation)
        stored = _indices(attributes[STORED]) if STORED in attributes else alone.stored
        kept, fetched, held = (_indices(attributes.get(name)) for name in (KEPT, FETCHED, HELD))
        return Residency(kept, fetched, held, stored)

    def write(self, operation: Operation) -> None:
        """Note it on an operation."""
        if self == Residency.alone(operation):
            return
        for name, indices in ((KEPT, self.kept), (FETCHED, self.fetched), (HELD, self.held), (STORED, self.stored)):
            if indices or name == STORED:
                operation.extra_attributes[name] = ArrayAttr(tuple(IntegerAttr(index) for index in sorted(indices)))


def _indices(attribute: Attribute | None) -> frozenset[int]:
    if not isinstance(attribute, ArrayAttr):
        return frozenset()
    return frozenset(item.value for item in attribute.items if isinstance(item, IntegerAttr))


def forget(operation: Operation) -> None:
    """Take away what `Residency.write` has noted."""
    for name in (KEPT, FETCHED, HELD, STORED):
        operation.extra_attributes.pop(name, None)
