"""Build the inner ops of a node in bf16, in every mode."""

from __future__ import annotations

from tpuc.api import BF16, LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.inner import InnerOps
from tpuc_ops import tpu

from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import Array, as_bf16, bf16, with_scale

_STEEP = 2.0**126
"""The smallest normal bf16 number times this is 1."""


class Bf16Composer(InnerOps):
    """Builds the inner ops of one node. The last one gets the node's name, all others a suffix."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder) -> None:
        super().__init__(node, build, BF16)

    def operand(self, index: int = 0) -> Value:
        """An operand of the node as bf16; infinite constants become the largest numbers."""
        constant, value = self.node.constants[index], self.node.operands[index]
        if constant is not None:
            return self.constant(constant)
        if value.tensor.storage == BF16:
            return value
        return cast(value, value.tensor.shape_only().with_element(BF16), self.name(), self.build)

    def integers(self, index: int = 0) -> Value:
        """The bytes of a quantized operand as bf16, without their scale."""
        value = self.node.operands[index]
        plain = with_scale(value.tensor, 1.0).at(None)
        value = self.build(tpu.Reshape(shape=plain.dims), [value], plain, self.name())
        return cast(value, plain.shape_only().with_element(BF16), self.name(), self.build)

    def constant(self, array: Array) -> Value:
        """A constant as bf16."""
        self._count += 1
        return self.build.weight(f"constant{self._count}_bf16", as_bf16(array), "bf16")

    def last(self, value: Value) -> list[Value]:
        """The result: `value` under the node's name."""
        return [self.last_of(value, 0)]

    def last_of(self, value: Value, position: int) -> Value:
        """One of several results, under its own name."""
        type_ = self.node.result_types[position].shape_only().with_element(BF16)
        name = self.node.result_names[position] if self.node.result_names else self.node.name
        return self.build(tpu.Reshape(shape=type_.dims), [value], type_, name)

    def function(self, mode: str, value: Value) -> Value:
        """A function of `tpu.Active`."""
        return self.do(tpu.Active(mode=mode), [value])

    def times(self, value: Value, number: float) -> Value:
        """The product with a constant."""
        return self.do(tpu.MulConst(const_val=bf16(number)), [value]) if number != 1.0 else value

    def plus(self, value: Value, number: float) -> Value:
        """The sum with a constant."""
        return self.do(tpu.AddConst(const_val=bf16(number)), [value]) if number else value

    def within(self, value: Value, low: float, high: float) -> Value:
        """Clamp to two bounds."""
        return self.do(tpu.Clip(min=bf16(low), max=bf16(high)), [value])

    def is_positive(self, value: Value) -> Value:
        """1 for numbers above 0, else 0."""
        return self.within(self.times(self.within(value, 0.0, 1.0), _STEEP), 0.0, 1.0)

    def inverted(self, truth: Value) -> Value:
        """1 for 0, and 0 for 1."""
        return self.plus(self.times(truth, -1.0), 1.0)

    def pooled(self, value: Value, mode: str, kernel: tuple[int, int]) -> Value:
        """The average or maximum over all rows, all columns, or both; `kernel` holds their extents, or 1."""
        for single in ((1, kernel[1]), (kernel[0], 1)):
            if single != (1, 1):
                n, c, h, w = value.tensor.dims
                dims = (n, c, h // single[0], w // single[1])
                value = self.do(tpu.Pool2D(pool_mode=mode, kernel_shape=single), [value], dims)
        return value
