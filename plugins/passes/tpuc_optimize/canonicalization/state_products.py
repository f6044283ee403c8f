"""Find the products that read states of recurrent cells."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, NetworkInput, Operation
from tpuc_ops.quantized import Product
from tpuc_ops.traits import CommutesWithRounding, states

from tpuc_optimize.canonicalization.wide_structures import producer_of, recurrent_cells


@dataclass(frozen=True)
class ProductOptions:
    """Cost limits of products in 16 bits."""

    most_filters: float = 0.3
    """Part of all filter elements that these products may have, since elements of two bytes take twice as long to load.
    Two versions of Silero VAD with 0.2 keep 96.5 % and 98.0 % of their frames instead of 80.9 % and 97.3 %, for 11 %
    more cycles; DTLN has 0.6, and with all products of its cells in f16 takes 66 % more, although bytes do no harm.
    """


PRODUCTS = ProductOptions()


def state_products(module: Module) -> frozenset[Operation]:
    """The products in cells that read a state, or an input of the network, products no larger than these that read
    states elsewhere, and what lies between; nothing where these are a large part of the network.
    """
    cells = recurrent_cells(module)
    gates = {producer_of(operand) for one in cells for operand in one.operands}
    sizes = {one: one.operands[1].tensor.size for one in module.main.operations if isinstance(one.op, Product)}
    largest = max((size for one, size in sizes.items() if one in gates), default=0)
    found, taken = set[Operation](), 0
    for operation, size in sizes.items():
        source, between = producer_of(operation.operands[0]), list[Operation]()
        if source is not None and source not in cells and states(source.op, CommutesWithRounding):
            source, between = producer_of(source.operands[0]), [source]
        is_input = operation in gates and source is not None and isinstance(source.op, NetworkInput)
        if (source in cells or is_input) and size <= largest:
            found.update((operation, *between))
            taken += size
    return frozenset(found if taken <= PRODUCTS.most_filters * sum(sizes.values()) else ())
