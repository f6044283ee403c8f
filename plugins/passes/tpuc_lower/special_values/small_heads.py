"""Find the last products of a network that are small, and the small values between them and the work before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Module, Operation, Value
from tpuc_ops.quantized import Product
from tpuc_ops.top.pool import Pool
from tpuc_ops.traits import ExtractsFeatures, StridedView, states

from tpuc_lower.special_values.coarse_outputs import OUTPUTS


@dataclass(frozen=True)
class HeadOptions:
    """Cost limits of a head in 16 bits."""

    most_filters: float = 0.3
    """Part of all filter elements that its products may have, since elements of two bytes take twice as long to load.
    The head of Magika has 14 % and takes 3 % of the cycles; of 0.5, MobileNet v1 0.25 would load 256 kB more.
    """
    most_elements: int = 1 << 18
    """Filter elements that its products may have. With the 2 million of ResNet-50, 8 % of all, the network took 7.7 %
    more cycles (500,997 -> 539,555), since loading filters is what it waits for.
    """


HEADS = HeadOptions()


@dataclass(frozen=True)
class SmallHead:
    """The last products, and the ops between their operands and the products before."""

    products: frozenset[Operation] = frozenset()
    before: frozenset[Operation] = frozenset()


def small_head(module: Module) -> SmallHead:
    """The products without another one behind them, if all of them read and write few elements and have few filters:
    those that classify pooled features. A computed operand is no filter. The ops before them have few results, or
    only move elements.
    """
    operations = [one for one in module.main.operations if one.operands and one.results]
    pools = {one for one in operations if isinstance(one.op, Pool)}
    most_moved = OUTPUTS.most_moved * sum(one.result.tensor.size for one in operations)
    filters = {one: _size(one.operands[1:2], constant=True) for one in operations if isinstance(one.op, Product)}
    behind, products, before = set[Operation](), set[Operation](), set[Operation]()
    for operation in reversed(operations):
        users = {user for result in operation.results for user in result.users if user.results}
        extracts, size = states(operation.op, ExtractsFeatures), operation.result.tensor.size
        if users <= behind and not extracts:
            behind.add(operation)
        elif users <= behind:
            if operation not in filters or size + _size(operation.operands[:2], constant=False) > most_moved:
                return SmallHead()
            products.add(operation)
        elif users <= products | before and (not extracts or operation in pools):
            before |= {operation} if size <= most_moved or states(operation.op, StridedView) else set()
    own = sum(filters[one] for one in products)
    is_small = own <= min(HEADS.most_elements, HEADS.most_filters * sum(filters.values()))
    return SmallHead(frozenset(products), frozenset(before)) if is_small else SmallHead()


def _size(operands: Sequence[Value], *, constant: bool) -> int:
    """The number of elements of constant or of computed operands."""
    return sum(one.tensor.size for one in operands if one.is_constant == constant)
