"""Traits: what an op states about itself for passes that know no op by name. They are mixin classes, most of them
without behavior; an op lists them among its bases.

An op without a trait is compiled all the same, as one of which nothing is known: docs/howto/write-an-op.md says what
each of them saves. Those that core has a use for (`Elementwise`, `FusesRelu`, `ShapeOnly`, ...) are in `tpuc.api`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from tpuc.api import Op, ShapeOnly

from tpuc_ops.arrays import Array
from tpuc_ops.quantised import KeepsScale


class CommutesWithRounding:
    """It compares and selects numbers and makes none but bounds: rounding its operand gives what rounding its result
    gives.
    """


class KeepsGrid:
    """Its results are values of its first operand, or zeros: they lie on the operand's quantization grid already."""


class NoLarger:
    """No result has a larger magnitude than the largest of its operands."""


class Bounded:
    """Its results lie between two numbers whatever its operands are."""

    def bounds(self) -> tuple[float, float] | None:
        """These numbers, or None where its attributes leave it without bounds."""
        raise NotImplementedError(f"{type(self).__name__} is Bounded, so it must say its bounds()")


class KeepsRange:
    """Its results span about the range of its first operand, so that both share one threshold."""

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        """The outermost numbers that slopes, bounds or paddings of the op make of values between `low`, at most 0, and
        `high`, at least 0. `constants` has an array for each operand that is a constant.
        """
        return ()


class TakesResultRange(KeepsRange):
    """Its operand may take over the range of its result, since numbers above zero pass unchanged. What becomes of those
    below is said by `below_zero`.
    """

    below_zero: ClassVar[Literal["kept", "cut", "sloped", "mirrored"]] = "kept"


class KeepsSign:
    """Its result is stored with a sign where an operand is, whatever the samples show."""


class Homogeneous:
    """A positive factor per channel may be applied before or after it: f(c * x) = c * f(x) if no relu has a limit."""


class PicksElements(KeepsScale, CommutesWithRounding):
    """Each element of its results is one of its first operand."""


class MovesElements(PicksElements):
    """Which one it is does not depend on their values."""


class ChoosesElements:
    """Each element of its result is one of some operand, so that they all share one threshold."""


class ReadsIndices:
    """Its second operand holds whole numbers that choose places."""


class Concatenates(ChoosesElements):
    """Its result has all elements of all operands, each once."""


class Traceable:
    """Attributes and shapes alone say where its elements come from: evaluated with numbers of elements it tells."""

    def without_fill(self) -> Traceable:
        """The op with zeros for what it puts around elements."""
        return self


class Rearranges(MovesElements, KeepsRange, KeepsGrid, NoLarger, Traceable):
    """Attributes and shapes alone say which element each of its results is."""


class StridedView:
    """Its only result is a view of its first operand with other extents and strides, as of numpy: it costs no more in
    one type than in another.
    """


class Repeats:
    """Its only result is its first operand, as a whole, several times along dimensions."""


class Reorders(StridedView):
    """Such a view of all elements, each once."""


class Reshapes(ShapeOnly, Rearranges, TakesResultRange, Reorders):
    """All that `ShapeOnly` states about an op of one operand."""


class RowByRow:
    """It takes no two indices of the first axis together, whatever its attributes are: samples can be batched."""


class ExtractsFeatures:
    """Networks do their work with it: masks are made without it, and what follows the last one is a tail."""


class ComputedInFloat:
    """Chips compute it with floats in every mode."""


class Differentiable:
    """It knows the gradients of its operands. Ops that are `Elementwise` or `Traceable` need no rule."""

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None] | None:
        """For each operand the gradient, given that of the result, before a fused relu; None for a constant one. None
        altogether where there is no rule for these attributes.
        """
        raise NotImplementedError(f"{type(self).__name__} is Differentiable, so it must have an adjoint()")


def states(op: Op, *traits: type) -> bool:
    """Does an op state one of these traits? `ShapeOnly` states all of `Reshapes`."""
    return isinstance(op, traits) or (isinstance(op, ShapeOnly) and issubclass(Reshapes, traits))
