"""Traits: mixin classes that say what kind of op this is, so that passes need not know ops by name."""

from __future__ import annotations


class Constant:
    """Its result is a constant of the module's weights, under the op's location name."""


class NetworkInput:
    """Its result is an argument of the network, possibly with preprocessing attributes."""


class FusesRelu:
    """It has `do_relu` and `relu_limit` attributes and applies them to its result."""


class Elementwise:
    """Each result element depends on the operand elements at the same (broadcast) place only."""


class ShapeOnly:
    """The result holds the operand's elements in the same order under another shape."""


class Commutative:
    """Operands may be exchanged."""


class SideEffects:
    """It may not be removed although nobody uses its results."""


class Absent:
    """Its result of type `none` stands for an operand that is not there."""


class RunsInPlace:
    """Its region is a part of the graph around it: results are the operands of the region's last operation."""
