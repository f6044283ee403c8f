"""Build TOP ops under given names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import F32, Module, ScalarType, TensorType, Value
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_llm.family import Factors, Linear, Norm


class Graph:
    """One network under construction; `inputs` are shapes by name, `outputs` the names that results will have."""

    def __init__(
        self, source: str, name: str, inputs: Mapping[str, tuple[int, ...]], outputs: Sequence[str] = ()
    ) -> None:
        said = ModuleSource(source, name, "HUGGINGFACE", {}, frozenset([*inputs, *outputs]))
        self._builder = TopBuilder(said, [(one, TensorType(dims, F32)) for one, dims in inputs.items()])
        self._orders: dict[tuple[str, bytes], Value] = {}
        self.inputs: Mapping[str, Value] = {one: self._builder.values[one] for one in inputs}

    def module(self, outputs: Mapping[str, Value]) -> Module:
        """Return the finished network with these results."""
        return self._builder.finish(list(outputs.items()))

    def weight(self, name: str, array: Array) -> Value:
        return self._builder.weight(name, array)

    def linear(self, x: Value, linear: Linear, name: str) -> Value:
        """``x @ weight.T + bias``."""
        none, stored = self._builder.none(), linear.integers
        bias = none if linear.bias is None else self.weight(f"{name}_bias", linear.bias)
        if stored is not None and stored.order is not None:
            x = self._ordered(x, stored.order, f"{name}_ordered")
        if stored is None:
            operands = [x, self.weight(f"{name}_weight", linear.weight), none, none, bias]
            return self._builder.build(top.A16MatMul(weight_bits=16), operands, name)
        operands = [
            x,
            self._builder.weight(f"{name}_integers", stored.weight, ScalarType("ui8")),
            self.weight(f"{name}_scale", stored.scale),
            self._builder.weight(f"{name}_zp", stored.zp, ScalarType("ui8")),
            bias,
        ]
        product = top.A16MatMul(weight_bits=stored.bits, q_group_size=stored.group)
        return self._builder.build(product, operands, name)

    def _ordered(self, x: Value, order: Array, name: str) -> Value:
        """Return the elements of the last dimension in another order; products that want the same one share it."""
        key = x.name, order.tobytes()
        if key not in self._orders:
            places = self.weight(f"{name}_places", order.astype(np.float32))
            self._orders[key] = self._builder.build(top.Gather(axis=x.tensor.rank - 1), [x, places], name)
        return self._orders[key]

    def product(self, left: Value, right: Value, name: str, *, transposed: bool = False) -> Value:
        """``left @ right``, or ``left @ right.T``, of the last two dimensions."""
        op = top.MatMul(right_transpose=transposed)
        return self._builder.build(op, [left, right, self._builder.none()], name)

    def norm(self, x: Value, factors: Factors, eps: float, name: str) -> Value:
        """RMSNorm over the last dimension, or a norm with a bias."""
        if isinstance(factors, Norm):
            operands = [x, self.weight(f"{name}_weight", factors.weight), self.weight(f"{name}_bias", factors.bias)]
            return self._builder.build(top.LayerNorm(axis=-1, eps=eps), operands, name)
        return self._builder.build(top.RMSNorm(eps=eps), [x, self.weight(f"{name}_weight", factors)], name)

    def add(self, left: Value, right: Value, name: str) -> Value:
        return self._builder.build(top.Add(), [left, right], name)

    def mul(self, left: Value, right: Value, name: str) -> Value:
        return self._builder.build(top.Mul(), [left, right], name)

    def scaled(self, x: Value, factor: float, name: str) -> Value:
        return self._builder.build(top.MulConst(const_val=factor), [x], name)

    def activated(self, x: Value, activation: str, name: str) -> Value:
        """The activation of a gate."""
        op = top.GELU(approx_mode="tanh") if activation == "gelu_tanh" else top.SiLU()
        return self._builder.build(op, [x], name)

    def capped(self, x: Value, cap: float, name: str) -> Value:
        """``cap * tanh(x / cap)``, or x if the cap is 0."""
        if not cap:
            return x
        curve = self._builder.build(top.Tanh(), [self.scaled(x, 1 / cap, f"{name}_share")], f"{name}_curve")
        return self.scaled(curve, cap, name)

    def softmax(self, x: Value, name: str) -> Value:
        """Over the last dimension."""
        return self._builder.build(top.Softmax(axis=x.tensor.rank - 1), [x], name)

    def reshape(self, x: Value, dims: Sequence[int], name: str) -> Value:
        return x if x.tensor.dims == tuple(dims) else self._builder.build(top.Reshape(shape=tuple(dims)), [x], name)

    def permute(self, x: Value, order: Sequence[int], name: str) -> Value:
        return self._builder.build(top.Permute(order=tuple(order)), [x], name)

    def concat(self, parts: Sequence[Value], axis: int, name: str) -> Value:
        return parts[0] if len(parts) == 1 else self._builder.build(top.Concat(axis=axis), list(parts), name)

    def rows(self, table: Array, numbers: Value, name: str) -> Value:
        """Rows of a constant table, by number."""
        return self._builder.build(top.Gather(axis=0), [self.weight(f"{name}_table", table), numbers], name)

    def part(self, x: Value, axis: int, first: int, end: int, name: str) -> Value:
        """Elements `first` to `end` of one dimension."""
        rank, dims = x.tensor.rank, list(x.tensor.dims)
        if (first, end) == (0, dims[axis]):
            return x
        dims[axis] = end
        offset = tuple(first if index == axis else 0 for index in range(rank))
        none = self._builder.none()
        op = top.Slice(offset=offset, steps=(1,) * rank, ends=tuple(dims))
        return self._builder.build(op, [x, none, none, none], name)


def rotary_tables(frequencies: Array, positions: int, factor: float) -> tuple[Array, Array]:
    """Return cosines, and sines with the signs of ``(-b, a)``: both [positions, head size]."""
    angles = np.outer(np.arange(positions), frequencies)
    cosines = np.concatenate([np.cos(angles)] * 2, axis=1) * factor
    sines = np.concatenate([-np.sin(angles), np.sin(angles)], axis=1) * factor
    return cosines.astype(np.float32), sines.astype(np.float32)
