"""Traits: mixin classes by which an op states properties for passes that know no op by name. Most have no behavior.

An op without traits compiles, but nothing is assumed about it; docs/howto/write-an-op.md lists what each trait saves.
Traits that core uses (`Elementwise`, `FusesRelu`, `ShapeOnly`, ...) are in `tpuc.api`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from tpuc.api import Op, ShapeOnly

from tpuc_ops.arrays import Array
from tpuc_ops.quantized import KeepsScale


class CommutesWithRounding:
    """The op compares and selects numbers and creates none but bounds, so rounding its operand is the same as rounding
    its result.
    """


class KeepsGrid:
    """Results are values of the first operand, or zeros, so they lie on the operand's quantization grid."""


class NoLarger:
    """No result has a larger magnitude than the largest operand."""


class FallsThenRises:
    """The function falls up to some number and rises from there, so its largest result on a set of numbers is that of
    the smallest or of the largest.
    """


class Bounded:
    """Results lie between two numbers, whatever the operands are."""

    def bounds(self) -> tuple[float, float] | None:
        """Return these numbers, or None if the attributes leave the op unbounded."""
        raise NotImplementedError(f"{type(self).__name__} is Bounded, so it must implement bounds()")


class KeepsRange:
    """Results have about the same range as the first operand, so both share one threshold."""

    def beyond(self, low: float, high: float, constants: Sequence[Array | None]) -> Sequence[float]:
        """Return the extreme values that the op's slopes, bounds, or paddings produce from operands between `low`, at
        most 0, and `high`, at least 0. `constants`: an array for each constant operand.
        """
        return ()


class TakesResultRange(KeepsRange):
    """The operand may take over the range of the result, since positive numbers pass unchanged. `below_zero` states
    what happens to negative ones.
    """

    below_zero: ClassVar[Literal["kept", "cut", "sloped", "mirrored"]] = "kept"


class KeepsSign:
    """The result is stored signed if an operand is, whatever the samples show."""


class Homogeneous:
    """A positive factor per channel commutes with the op: f(c * x) = c * f(x), if no relu has a limit."""


class PicksElements(KeepsScale, CommutesWithRounding):
    """Each element of the results is an element of the first operand."""


class MovesElements(PicksElements):
    """Each element of the results is an element of the first operand, selected independently of the values."""


class ChoosesElements:
    """Each element of the result is an element of some operand, so all of them share one threshold."""


class ReadsIndices:
    """The second operand holds integer indices."""


class Concatenates(ChoosesElements):
    """The result has all elements of all operands, each once."""


class Traceable:
    """Attributes and shapes alone determine where elements come from: evaluating the op on element numbers reveals
    it.
    """

    def without_fill(self) -> Traceable:
        """Return the op with zeros as padding values."""
        return self


class Rearranges(MovesElements, KeepsRange, KeepsGrid, NoLarger, Traceable):
    """Attributes and shapes alone determine which element each result is."""


class StridedView:
    """The only result is a strided view of the first operand, as in numpy, so it costs the same in every type."""


class Repeats:
    """The only result is the whole first operand, repeated along dimensions."""


class Reorders(StridedView):
    """A strided view that contains every element once."""


class Reshapes(ShapeOnly, Rearranges, TakesResultRange, Reorders):
    """Everything that `ShapeOnly` states about an op with one operand."""


class RowByRow:
    """Rows along the first axis never interact, whatever the attributes are, so samples can be batched."""


class ExtractsFeatures:
    """The op does a network's main work: attention masks are computed without it, and ops after the last one form the
    tail.
    """


class ComputedInFloat:
    """Chips compute the op in floats in every mode."""


class Differentiable:
    """The op defines the gradients of its operands. `Elementwise` and `Traceable` ops need no rule."""

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None] | None:
        """Return the gradient of each operand, given that of the result before a fused relu; None for constant
        operands. Return None altogether if there is no rule for these attributes.
        """
        raise NotImplementedError(f"{type(self).__name__} is Differentiable, so it must implement adjoint()")


def states(op: Op, *traits: type) -> bool:
    """True if an op has one of these traits. `ShapeOnly` implies all of `Reshapes`."""
    return isinstance(op, traits) or (isinstance(op, ShapeOnly) and issubclass(Reshapes, traits))
