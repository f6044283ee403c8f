"""Traits: mixin classes that classify ops, so that passes need no op names."""

from __future__ import annotations


class Constant:
    """Its result is a constant of the module's weights, under the op's location name."""


class NetworkInput:
    """Its result is an argument of the network, possibly with preprocessing attributes."""


class FusesRelu:
    """The op has attributes `do_relu` and `relu_limit` and applies them to its result."""


class Elementwise:
    """Each result element depends only on the operand elements at the same (broadcast) position."""


class ShapeOnly:
    """The result holds the operand's elements in the same order with another shape."""


class Commutative:
    """Operands may be exchanged."""


class SideEffects:
    """The op must not be removed, even if its results are unused."""


class Absent:
    """Its result of type `none` stands for an absent operand."""


class RunsInPlace:
    """Its region is part of the surrounding graph: the results are the operands of the region's last operation."""
